//! What the library's functions do that another CPU or the hardware can tell, by their names.
//!
//! The order of two statements matters only if both do something of the kind, and a value is worth
//! reading again only if somebody else may have changed it. Which functions do is not listed but
//! computed: those that operate on atomic words or execute instructions, and those that call them.
//! Functions are told apart by name alone.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    Block, Expr, Ident,
    visit::{self, Visit},
};

use super::sites::{INSTRUCTIONS, is_test};

/// What stands for the load of an atomic word, whatever function it is in. Other functions are called
/// `load`, too; those of atomic words are given an ordering.
const LOAD: &str = "load an atomic word";
/// The operations that read, of words and of sets in words.
const READS: &[&str] = &["load", "contains", "iter"];
/// What stands for any other operation on one.
const CHANGE: &str = "change an atomic word";
/// What sends interrupts.
const INTERRUPT: &str = "interrupt";
/// Names that functions of the standard library have, too, or that of several functions only some do it.
const VAGUE: &[&str] = &[
    "new", "next", "get", "set", "iter", "fmt", "drop", "default", "from", "add", "clone", "fold",
];

/// The names of the functions that do something of the kind.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// They read what others may change.
    reads: BTreeSet<String>,
    /// They change what others may read, or execute instructions of the translation hardware.
    acts: BTreeSet<String>,
}

impl Effects {
    /// Of the functions of these files.
    pub(super) fn of<'f>(files: impl Iterator<Item = &'f syn::File>) -> Self {
        let mut functions = Functions::default();
        files.for_each(|file| functions.visit_file(file));
        let mut effects = Self::default();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        effects.reads = close(&functions.calls, names(&[LOAD]));
        effects.acts =
            close(&functions.calls, names(&[&[CHANGE, INTERRUPT], INSTRUCTIONS].concat()));
        effects
    }

    /// Whether others can tell which of the two is executed first: one of them does something, and the
    /// other one does or sees something.
    pub(super) fn ordered(&self, one: &Expr, other: &Expr) -> bool {
        let called = [one, other].map(|expr| called(|calls| calls.visit_expr(expr)));
        let acts = |called: &BTreeSet<String>| !called.is_disjoint(&self.acts);
        let shows = |called: &BTreeSet<String>| acts(called) || !called.is_disjoint(&self.reads);
        called.iter().all(shows) && called.iter().any(acts)
    }

    /// Whether it reads what others may change, and changes nothing.
    pub(super) fn only_reads(&self, expr: &Expr) -> bool {
        let called = called(|calls| calls.visit_expr(expr));
        called.iter().any(|name| self.reads.contains(name))
            && !called.iter().any(|name| self.acts.contains(name))
    }
}

/// The names of the functions that are called.
fn called(look: impl FnOnce(&mut Calls)) -> BTreeSet<String> {
    let mut calls = Calls::default();
    look(&mut calls);
    calls.0
}

/// Adds the functions that call one of them, until there is none.
fn close(
    calls: &BTreeMap<String, BTreeSet<String>>,
    mut names: BTreeSet<String>,
) -> BTreeSet<String> {
    loop {
        let calls_one = |called: &BTreeSet<String>| called.iter().any(|name| names.contains(name));
        let more: Vec<&String> = calls
            .iter()
            .filter(|(name, called)| !names.contains(*name) && calls_one(called))
            .map(|(name, _)| name)
            .collect();
        if more.is_empty() {
            return names;
        }
        names.extend(more.into_iter().cloned());
    }
}

/// The functions of all files, and what functions of such a name call.
#[derive(Default)]
struct Functions {
    calls: BTreeMap<String, BTreeSet<String>>,
}

impl Functions {
    fn add(&mut self, attrs: &[syn::Attribute], name: &Ident, block: &Block) {
        let name = name.to_string();
        if !is_test(attrs) && !VAGUE.contains(&&*name) {
            let called = called(|calls| calls.visit_block(block));
            self.calls.entry(name).or_default().extend(called);
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.attrs, &item.sig.ident, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.attrs, &item.sig.ident, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.attrs, &item.sig.ident, block);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}

/// The names of functions and methods that are called.
#[derive(Default)]
pub(super) struct Calls(BTreeSet<String>);

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let ordered = call.args.iter().any(|argument| match argument {
            Expr::Path(path) => path.path.segments.iter().any(|part| part.ident == "Ordering"),
            _ => false,
        });
        self.0.insert(match call.method.to_string() {
            name if !ordered => name,
            name if READS.contains(&&*name) => LOAD.to_owned(),
            _ => CHANGE.to_owned(),
        });
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(path) = &*call.func
            && let Some(last) = path.path.segments.last()
        {
            let name = last.ident.to_string();
            self.0.insert(if name == "fence" { CHANGE.to_owned() } else { name });
        }
        visit::visit_expr_call(self, call);
    }
}
