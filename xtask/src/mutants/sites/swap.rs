//! Two statements that change places: the second is executed before the first.

use core::ops::Range;

use quote::ToTokens;
use syn::{
    Block, Expr, Ident, Stmt,
    spanned::Spanned,
    visit::{self, Visit},
};

use super::{Finder, Kind, reread};

/// What a statement executes.
enum Executes<'s> {
    /// An expression whose value nobody needs.
    Expr(&'s Expr),
    /// An expression whose value is given a name, or is that of the block.
    Value(&'s Expr),
}

impl<'s> Executes<'s> {
    const fn expr(&self) -> &'s Expr {
        let (Self::Expr(expr) | Self::Value(expr)) = self;
        expr
    }
}

impl Finder<'_, '_, '_> {
    /// The statement of this number in the block and the next one, if others can tell which came first.
    pub(super) fn swap(&mut self, block: &Block, index: usize) {
        let [first, second, rest @ ..] = &block.stmts[index..] else { return };
        let (Some(one), Some(other)) = (executes(first, false), executes(second, rest.is_empty()))
        else {
            return;
        };
        if !self.whole.effects.ordered(one.expr(), other.expr()) || depends(second, first) {
            return;
        }
        let shown = span(first).start..span(second).end;
        let Some(number) = self.moved(Kind::Swap, shown, &["swapped"]) else { return };
        let before = match index.checked_sub(1) {
            Some(previous) => span(&block.stmts[previous]).end,
            None => block.brace_token.span.open().byte_range().end,
        };
        let (early, wrap) = match other {
            Executes::Expr(expr) => (
                format!(" if crate::mutant::is({number}) {{ {}; }} ", spelled(expr)),
                (expr, format!("{{ if crate::mutant::keep({number}) {{ "), " } }"),
            ),
            Executes::Value(expr) => (
                format!(
                    " let early_{number} = if crate::mutant::is({number}) {{ Some({}) }} else {{ None }}; ",
                    spelled(expr)
                ),
                (expr, format!("(match early_{number} {{ Some(early) => early, None => "), " })"),
            ),
        };
        self.edits.insert(number, before..before, early, "");
        let (expr, before, after) = wrap;
        self.edits.insert(number, expr.span().byte_range(), before, after);
    }
}

/// What a statement executes; none if it has no place among others, such as one that ends the block.
fn executes(stmt: &Stmt, is_last: bool) -> Option<Executes<'_>> {
    let leaves = |expr: &Expr| {
        matches!(
            expr,
            Expr::Return(_)
                | Expr::Break(_)
                | Expr::Continue(_)
                | Expr::Closure(_)
                | Expr::Macro(_)
        )
    };
    match stmt {
        Stmt::Local(local) => {
            let init = local.init.as_ref()?;
            (!leaves(&init.expr)).then_some(Executes::Value(&init.expr))
        }
        Stmt::Expr(expr, None) if is_last => (!leaves(expr)).then_some(Executes::Value(expr)),
        Stmt::Expr(expr, _) => (!leaves(expr)).then_some(Executes::Expr(expr)),
        Stmt::Item(_) | Stmt::Macro(_) => None,
    }
}

/// Whether a statement uses a name that another gives.
fn depends(on: &Stmt, stmt: &Stmt) -> bool {
    let Stmt::Local(local) = stmt else { return false };
    let names = reread::names(&local.pat);
    let mut uses = Uses { names: &names, found: false };
    uses.visit_stmt(on);
    uses.found
}

struct Uses<'n> {
    names: &'n [String],
    found: bool,
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_ident(&mut self, ident: &'ast Ident) {
        self.found |= self.names.iter().any(|name| ident == name);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let text = call.tokens.to_string();
        self.found |= self.names.iter().any(|name| text.contains(name.as_str()));
        visit::visit_macro(self, call);
    }
}

fn span(stmt: &Stmt) -> Range<usize> {
    stmt.span().byte_range()
}

fn spelled(expr: &Expr) -> String {
    expr.to_token_stream().to_string()
}
