//! Values that were read once and are used later: what if they are read again where they are used last?

use quote::ToTokens;
use syn::{
    Block, Expr, ExprPath, Ident, Local, Pat, Stmt,
    spanned::Spanned,
    visit::{self, Visit},
};

use super::{Finder, Kind};

/// A variable that holds what was read.
pub(super) struct Captured {
    /// Where it is used last.
    last: usize,
    /// The code that reads its value.
    reads: String,
}

impl Finder<'_, '_, '_> {
    /// Notes that the statement of this number in a block may name what it reads.
    pub(super) fn capture(&mut self, block: &Block, index: usize) {
        let Stmt::Local(Local { pat, init: Some(init), .. }) = &block.stmts[index] else { return };
        let pat = match pat {
            Pat::Type(typed) => &*typed.pat,
            pat => pat,
        };
        let Pat::Ident(pat) = pat else { return };
        let plain = pat.by_ref.is_none() && pat.mutability.is_none() && pat.subpat.is_none();
        let is_value = init.diverge.is_none() && !matches!(*init.expr, Expr::Closure(_));
        if plain && is_value && self.whole.effects.only_reads(&init.expr) {
            let mut uses = Uses { name: &pat.ident, last: None };
            block.stmts[index + 1..].iter().for_each(|stmt| uses.visit_stmt(stmt));
            if let Some(last) = uses.last {
                let reads = init.expr.to_token_stream().to_string();
                self.captured.push(Captured { last, reads });
            }
        }
    }

    /// A use of what was read.
    pub(super) fn reread(&mut self, path: &ExprPath) {
        let place = path.span().byte_range();
        let captured = self.captured.iter().find(|captured| captured.last == place.start);
        let Some(reads) = captured.map(|captured| captured.reads.clone()) else { return };
        let line = self.edits.line(place.start);
        if let Some(number) = self.moved(Kind::Reread, line, &["again"]) {
            let before = format!("(if crate::mutant::is({number}) {{ {reads} }} else {{ ");
            self.edits.insert(number, place, before, " })");
        }
    }
}

/// Where a variable is used last. One of the same name that hides it is taken for it; such uses are left
/// out where the types differ, and are no worse than others where they do not.
struct Uses<'n> {
    name: &'n Ident,
    last: Option<usize>,
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        if path.path.is_ident(self.name) {
            self.last = Some(path.span().byte_range().start);
        }
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        // `Name { field }` has no place for another value.
        if field.colon_token.is_some() {
            visit::visit_field_value(self, field);
        }
    }
}

/// The names that a pattern binds.
pub(super) fn names(pat: &Pat) -> Vec<String> {
    struct Names(Vec<String>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_pat_ident(&mut self, pat: &'ast syn::PatIdent) {
            self.0.push(pat.ident.to_string());
            visit::visit_pat_ident(self, pat);
        }
    }
    let mut found = Names(Vec::new());
    found.visit_pat(pat);
    found.0
}
