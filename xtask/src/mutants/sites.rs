//! Where the library can be weakened: every ordering, barrier, flush and check of its source, and the
//! order in which it does things.
//!
//! A *site* is a place in a file and the changes that are tried there. What is changed is not the
//! text but the outcome: a site is wrapped in a call that gives the original unless a run has chosen
//! one of its changes, so one build holds them all.
//!
//! Whether code may stand in another place only the compiler knows. Sites where code is
//! moved are left out again where it says no (see [`super::viable`]); they keep their
//! names, so that others do not change theirs.

mod cut;
mod reread;
mod swap;

use core::{fmt, ops::Range};
use std::collections::BTreeSet;

use syn::{
    BinOp, Block, Expr, ExprCall, ExprMethodCall, Pat, Signature, Stmt,
    spanned::Spanned,
    visit::{self, Visit},
};

use self::reread::Captured;
use super::{effects::Effects, instrument::Edits};

/// What a site is about. In the order in which they are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
pub(super) enum Kind {
    /// The ordering of an atomic operation.
    Ordering,
    /// An instruction that changes, orders or empties something of the translation hardware.
    Instruction,
    /// A step of a flush or a switch that is made of instructions.
    Flush,
    /// An operand that says how much is flushed, or how strong a barrier is.
    Extent,
    /// A condition.
    Check,
    /// A part of a condition.
    Operand,
    /// Two statements, one after the other.
    Swap,
    /// A use of a value that was read before.
    Reread,
    /// A loop, or a question about all elements.
    Loop,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Ordering,
        Self::Instruction,
        Self::Flush,
        Self::Extent,
        Self::Check,
        Self::Operand,
        Self::Swap,
        Self::Reread,
        Self::Loop,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ordering => "ordering",
            Self::Instruction => "instruction",
            Self::Flush => "flush",
            Self::Extent => "extent",
            Self::Check => "check",
            Self::Operand => "operand",
            Self::Swap => "swap",
            Self::Reread => "reread",
            Self::Loop => "loop",
        })
    }
}

/// One place, and what is tried there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) kind: Kind,
    /// `file::function/kind-k`: the k-th of its kind in functions of that name in that file.
    pub(super) id: String,
    /// The line in the file, from 1 on.
    pub(super) line: usize,
    /// The code, in one line.
    pub(super) code: String,
    /// What each change makes of it.
    pub(super) changes: Vec<String>,
    /// The number of its first change; the others follow.
    pub(super) first: u32,
}

/// Methods of the traits `Instructions`.
pub(super) const INSTRUCTIONS: &[&str] = &[
    "tlbi",
    "dsb",
    "isb",
    "ic_iallu",
    "set_ttbr0",
    "set_ttbr1",
    "write_ttbr0",
    "write_ttbr1",
    "write_vttbr",
    "write_cr3",
    "write_cr4",
    "invlpg",
    "invpcid",
    "invlpgb",
    "tlbsync",
    "mfence",
    "sfence_vma",
    "sfence_w_inval",
    "sinval_vma",
    "sfence_inval_ir",
    "fence",
    "write_satp",
];
/// Functions that are made of them, and return nothing.
const FLUSHES: &[&str] = &[
    "begin",
    "begin_broadcast",
    "begin_kernel",
    "begin_ranges",
    "begin_tag",
    "catch_up",
    "complete",
    "complete_broadcast",
    "drop_everything",
    "drop_other",
    "fence_everywhere",
    "fence_here",
    "fence_ranges",
    "flush",
    "flush_broadcast",
    "flush_every_tag",
    "flush_here",
    "flush_kernel",
    "flush_ranges",
    "flush_tag",
    "invalidate_each",
    "invalidate_everything",
    "invalidate_kernel",
    "invalidate_ranges",
    "invalidate_tag",
    "invpcids",
    "park_register",
    "park_register_and_drop",
    "publish",
    "purge_reserved_tag",
    "reload",
    "removed",
    "resume_walks",
    "revoke",
    "settle",
    "stop_walks",
    "synchronise",
    "tag_changed",
    "toggle_pge",
];
/// Values that say how much, and the next weaker one.
const EXTENTS: &[(&str, &str, &str)] = &[
    ("Dsb", "Ish", "Ishst"),
    ("Dsb", "Nsh", "Nshst"),
    ("Scope", "Broadcast", "Local"),
    ("Held", "Drop", "Keep"),
    ("TableChange", "FreedTables", "LastLevel"),
];

/// What is known of the whole library when the sites of one file are looked for.
#[derive(Debug, Default)]
pub(super) struct Whole {
    pub(super) effects: Effects,
    /// The names of sites whose change does not compile.
    pub(super) unviable: BTreeSet<String>,
}

/// Finds the sites of one file, and notes what is to be inserted for them.
pub(super) fn find(
    file: &str,
    syntax: &syn::File,
    whole: &Whole,
    next: u32,
    edits: &mut Edits<'_>,
) -> Vec<Site> {
    let mut finder = Finder {
        file,
        whole,
        edits,
        next,
        function: String::new(),
        sites: Vec::new(),
        counts: vec![],
        captured: vec![],
    };
    finder.visit_file(syntax);
    finder.sites
}

struct Finder<'f, 'e, 't> {
    file: &'f str,
    whole: &'f Whole,
    edits: &'e mut Edits<'t>,
    next: u32,
    /// The function that is being looked at; none between functions, where nothing is executed.
    function: String,
    sites: Vec<Site>,
    /// How many sites of a kind a function of a name has so far.
    counts: Vec<(String, usize)>,
    /// The variables that hold what was read.
    captured: Vec<Captured>,
}

/// How an operation on memory treats its ordering.
#[derive(Clone, Copy)]
enum Access {
    Load,
    Store,
    Both,
}

impl Finder<'_, '_, '_> {
    /// Adds a site at which code is moved, unless the compiler does not take it.
    fn moved(&mut self, kind: Kind, shown: Range<usize>, changes: &[&str]) -> Option<u32> {
        let changes = changes.iter().map(|change| (*change).to_owned()).collect();
        let number = self.site(kind, shown, changes);
        let site = self.sites.last().expect("it was added just now");
        if self.whole.unviable.contains(&site.id) {
            self.sites.pop();
            self.next = number;
            return None;
        }
        Some(number)
    }

    /// Adds a site, which readers know by the code at `shown`, and returns the number of its first
    /// change.
    fn site(&mut self, kind: Kind, shown: Range<usize>, changes: Vec<String>) -> u32 {
        let name = format!("{}::{}/{kind}", self.file, self.function);
        let count = match self.counts.iter_mut().find(|(other, _)| *other == name) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                self.counts.push((name.clone(), 1));
                1
            }
        };
        let text = self.edits.text();
        let code = text[shown.clone()].split_whitespace().collect::<Vec<_>>().join(" ");
        let line = text[..shown.start].matches('\n').count() + 1;
        let first = self.next;
        self.next += u32::try_from(changes.len()).expect("a site has a handful of changes");
        let id = format!("{name}-{count}");
        self.sites.push(Site { kind, id, line, code, changes, first });
        first
    }

    /// Runs `look` on the inside of a function; not where things are computed by the compiler.
    fn inside(&mut self, attrs: &[syn::Attribute], sig: &Signature, look: impl FnOnce(&mut Self)) {
        if sig.constness.is_some() || is_test(attrs) {
            return;
        }
        let outer = core::mem::replace(&mut self.function, sig.ident.to_string());
        look(self);
        self.function = outer;
    }

    /// A call that may be left out, because it gives nothing that anyone needs.
    fn droppable(&mut self, expr: &Expr) {
        let name = match expr {
            Expr::MethodCall(ExprMethodCall { method, .. }) => method.to_string(),
            Expr::Call(ExprCall { func, .. }) => match &**func {
                // `Self::begin` makes a value.
                Expr::Path(path)
                    if path.path.segments.first().is_none_or(|s| s.ident != "Self") =>
                {
                    path.path.segments.last().expect("a path").ident.to_string()
                }
                _ => return,
            },
            _ => return,
        };
        let kind = match name.as_str() {
            name if INSTRUCTIONS.contains(&name) => Kind::Instruction,
            name if FLUSHES.contains(&name) => Kind::Flush,
            _ => return,
        };
        let place = expr.span().byte_range();
        let number = self.site(kind, place.clone(), vec!["dropped".to_owned()]);
        self.edits.wrap(place, format!("{{ if crate::mutant::keep({number}) {{ "), " } }");
    }

    /// A condition: as a whole it may always hold, or never.
    fn condition(&mut self, cond: &Expr, may_hold: bool) {
        if let Expr::Binary(both) = cond
            && matches!(both.op, BinOp::And(_))
            && has_let(cond)
        {
            self.condition(&both.left, may_hold);
            self.condition(&both.right, may_hold);
            return;
        }
        if matches!(cond, Expr::Let(_)) {
            return;
        }
        let place = cond.span().byte_range();
        if may_hold {
            let changes = vec!["always".to_owned(), "never".to_owned()];
            let number = self.site(Kind::Check, place.clone(), changes);
            self.edits.wrap(place, format!("crate::mutant::check({number}, "), ")");
        } else {
            // A loop that never ends says nothing about its condition.
            let number = self.site(Kind::Check, place.clone(), vec!["never".to_owned()]);
            self.edits.wrap(place, format!("crate::mutant::forced({number}, "), ", false)");
        }
    }

    /// A part of `a && b` or `a || b`, left out.
    fn operand(&mut self, operand: &Expr, op: &BinOp) {
        let nested = matches!((operand, op),
            (Expr::Binary(inner), BinOp::And(_)) if matches!(inner.op, BinOp::And(_)))
            || matches!((operand, op),
            (Expr::Binary(inner), BinOp::Or(_)) if matches!(inner.op, BinOp::Or(_)));
        if nested {
            return; // Its own operands will be looked at.
        }
        let place = operand.span().byte_range();
        let number = self.site(Kind::Operand, place.clone(), vec!["left-out".to_owned()]);
        let to = matches!(op, BinOp::And(_));
        self.edits.wrap(place, format!("crate::mutant::forced({number}, "), format!(", {to})"));
    }

    fn ordering(&mut self, call: Range<usize>, argument: &Expr, access: Access) {
        let Some(("Ordering", strong)) = variant(argument) else { return };
        let weaker: &[&str] = match (strong.as_str(), access) {
            ("SeqCst", Access::Load) => &["Acquire", "Relaxed"],
            ("SeqCst", Access::Store) => &["Release", "Relaxed"],
            ("SeqCst", Access::Both) => &["AcqRel", "Relaxed"],
            ("AcqRel", _) => &["Acquire", "Release", "Relaxed"],
            ("Acquire" | "Release", _) => &["Relaxed"],
            _ => return,
        };
        let place = argument.span().byte_range();
        let changes = weaker.iter().map(|weaker| (*weaker).to_owned()).collect();
        let number = self.site(Kind::Ordering, call, changes);
        let weaker: String = weaker
            .iter()
            .map(|weaker| format!("core::sync::atomic::Ordering::{weaker}, "))
            .collect();
        let end = format!(", &[{weaker}])");
        self.edits.wrap(place, format!("crate::mutant::pick({number}, "), end);
    }

    fn extent(&mut self, expr: &Expr) {
        let Expr::Path(path) = expr else { return };
        let Some((of, value)) = variant(expr) else { return };
        let Some((.., weaker)) = EXTENTS.iter().find(|e| (e.0, e.1) == (of, value.as_str())) else {
            return;
        };
        let place = path.span().byte_range();
        let number = self.site(Kind::Extent, place.clone(), vec![(*weaker).to_owned()]);
        let original = &self.edits.text()[place.clone()];
        let before = original.strip_suffix(value.as_str()).expect("the path ends in the value");
        let end = format!(", &[{before}{weaker}])");
        self.edits.wrap(place, format!("crate::mutant::pick({number}, "), end);
    }
}

/// The type and the variant of a path such as `Ordering::SeqCst`, if the type is one of ours.
fn variant(expr: &Expr) -> Option<(&'static str, String)> {
    let Expr::Path(path) = expr else { return None };
    let segments = &path.path.segments;
    let [.., of, value] = &segments.iter().collect::<Vec<_>>()[..] else { return None };
    let known = ["Ordering"].into_iter().chain(EXTENTS.iter().map(|extent| extent.0));
    let of = known.into_iter().find(|name| of.ident == name)?;
    Some((of, value.ident.to_string()))
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

/// Whether these are the attributes of something that is not shipped.
pub(super) fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|l| l.tokens.to_string() == "test")
    })
}

impl<'ast> Visit<'ast> for Finder<'_, '_, '_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.inside(&item.attrs, &item.sig, |finder| finder.visit_block(&item.block));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.inside(&item.attrs, &item.sig, |finder| finder.visit_block(&item.block));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.inside(&item.attrs, &item.sig, |finder| finder.visit_block(block));
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    // What the compiler computes has no site.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_pat(&mut self, pat: &'ast Pat) {
        // Of a pattern only its guard is executed.
        if let Pat::Guard(guarded) = pat {
            self.condition(&guarded.guard, true);
            self.visit_expr(&guarded.guard);
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        for (index, stmt) in block.stmts.iter().enumerate() {
            self.swap(block, index);
            self.capture(block, index);
            if let Stmt::Expr(expr, _) = stmt {
                self.droppable(expr);
            }
            self.visit_stmt(stmt);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.droppable(&arm.body);
        visit::visit_arm(self, arm);
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        self.droppable(&closure.body);
        visit::visit_expr_closure(self, closure);
    }

    fn visit_expr_for_loop(&mut self, each: &'ast syn::ExprForLoop) {
        if !matches!(*each.pat, Pat::Wild(_)) {
            self.cut(each.span().byte_range().start..each.expr.span().byte_range().end, &each.expr);
        }
        visit::visit_expr_for_loop(self, each);
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        self.condition(&expr.cond, true);
        visit::visit_expr_if(self, expr);
    }

    fn visit_expr_while(&mut self, expr: &'ast syn::ExprWhile) {
        self.condition(&expr.cond, false);
        visit::visit_expr_while(self, expr);
    }

    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        match &expr.op {
            BinOp::And(_) | BinOp::Or(_) if !has_let(&Expr::Binary(expr.clone())) => {
                self.operand(&expr.left, &expr.op);
                self.visit_expr(&expr.left);
                self.operand(&expr.right, &expr.op);
                self.visit_expr(&expr.right);
            }
            // What is compared with a value is not weakened by another value.
            BinOp::Eq(_) | BinOp::Ne(_) => {
                for side in [&expr.left, &expr.right] {
                    match &**side {
                        Expr::Path(path) => self.reread(path),
                        _ => self.visit_expr(side),
                    }
                }
            }
            _ => visit::visit_expr_binary(self, expr),
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let name = call.method.to_string();
        let place = call.span().byte_range();
        let orders = call.args.iter().filter(|argument| variant(argument).is_some());
        for (index, argument) in orders.enumerate() {
            let access = match (name.as_str(), index) {
                ("load" | "contains" | "iter", _) | ("compare_exchange", 1) => Access::Load,
                ("store", _) => Access::Store,
                _ => Access::Both,
            };
            self.ordering(place.clone(), argument, access);
        }
        if cut::asks_all(call) {
            self.cut(place, &call.receiver);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        // `Name { field }` has no place for another value.
        if field.colon_token.is_some() {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        for argument in &call.args {
            self.ordering(call.span().byte_range(), argument, Access::Both);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        self.extent(&Expr::Path(path.clone()));
        self.reread(path);
    }
}
