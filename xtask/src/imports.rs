//! The modules of the library import each other in one direction only: a reader can start at the bottom.
//!
//! A module here is one that `lib.rs` declares, with everything below it. What tests import does not count, and
//! neither does the default of a type parameter: it is for users of the type, and its definition does without it.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Item, visit::Visit};

use crate::{
    failure::{Failure, Result},
    source,
    workspace::Workspace,
};

const SOURCE: &str = "lookaside/src/";
const ROOT: &str = "lookaside/src/lib.rs";

/// For each module the modules that it imports, each with a file that does.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// Prints the modules, those first that import nothing, and fails if there is a cycle.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let root = parse(workspace, ROOT)?;
    let reexports = reexports(&root);
    let modules: BTreeSet<String> = root.items.iter().filter_map(module).collect();
    let mut graph: Graph = modules.iter().map(|module| (module.clone(), BTreeMap::new())).collect();
    for file in workspace.files()? {
        let Some(path) = file.strip_prefix(SOURCE).and_then(|path| path.strip_suffix(".rs")) else {
            continue;
        };
        let path: Vec<&str> = path.split('/').filter(|part| *part != "mod").collect();
        if file == ROOT || path.contains(&"tests") {
            continue;
        }
        let imports = graph.entry(path[0].to_owned()).or_default();
        for import in Imports::of(&parse(workspace, &file)?, &path) {
            let import = reexports.get(&import).cloned().unwrap_or(import);
            if import != path[0] && modules.contains(&import) {
                imports.entry(import).or_insert_with(|| file.clone());
            }
        }
    }
    let edges: usize = graph.values().map(BTreeMap::len).sum();
    let (layers, rest) = layers(&graph);
    for (number, layer) in layers.iter().enumerate() {
        println!("{number:>2}: {}", layer.join(", "));
    }
    if rest.is_empty() {
        println!("{} modules, {edges} imports, no cycle", graph.len());
        return Ok(());
    }
    Err(Failure::new(format!("{SOURCE}: a cycle of imports:\n{}", cycle(&graph, &rest))))
}

fn parse(workspace: &Workspace, file: &str) -> Result<syn::File> {
    syn::parse_file(&workspace.read(file)?)
        .map_err(|error| Failure::new(format!("{file}: {error}")))
}

/// The name of a module that is part of the library.
fn module(item: &Item) -> Option<String> {
    match item {
        Item::Mod(item) if !is_for_tests(&item.attrs) => Some(item.ident.to_string()),
        _ => None,
    }
}

/// Names of the root, with the module that each is from.
fn reexports(root: &syn::File) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for item in &root.items {
        if let Item::Use(item) = item {
            for import in source::imports(&item.tree) {
                if let [module, _, ..] = &import.path[..] {
                    found.insert(import.name, module.clone());
                }
            }
        }
    }
    found
}

/// Whether an item exists in tests only.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|what| what == "test" || what == "doctest")
    })
}

/// What a file names of the root of the crate.
struct Imports<'p> {
    /// The module that the file is.
    module: &'p [&'p str],
    found: BTreeSet<String>,
}

impl<'p> Imports<'p> {
    fn of(file: &syn::File, module: &'p [&'p str]) -> BTreeSet<String> {
        let mut imports = Self { module, found: BTreeSet::new() };
        imports.visit_file(file);
        imports.found
    }

    /// Notes the module at the root that a path goes to, if it says so.
    fn note(&mut self, path: &[String]) {
        let supers = path.iter().take_while(|part| *part == "super").count();
        let at_root = match path.first().map(String::as_str) {
            Some("crate") => path.get(1),
            Some("super") if supers >= self.module.len() => path.get(supers),
            _ => None,
        };
        self.found.extend(at_root.cloned());
    }
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            _ => return syn::visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        source::imports(&item.tree).iter().for_each(|import| self.note(&import.path));
    }

    fn visit_type_param(&mut self, parameter: &'ast syn::TypeParam) {
        parameter.bounds.iter().for_each(|bound| self.visit_type_param_bound(bound));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&parts);
        syn::visit::visit_path(self, path);
    }
}

/// The modules by layers, each of which imports lower ones only; and those that are in or above a cycle.
fn layers(graph: &Graph) -> (Vec<Vec<&str>>, BTreeSet<&str>) {
    let mut rest: BTreeSet<&str> = graph.keys().map(String::as_str).collect();
    let mut layers = Vec::new();
    loop {
        let is_free =
            |module: &&str| graph[*module].keys().all(|import| !rest.contains(import.as_str()));
        let layer: Vec<&str> = rest.iter().copied().filter(is_free).collect();
        if layer.is_empty() {
            return (layers, rest);
        }
        rest.retain(|module| !layer.contains(module));
        layers.push(layer);
    }
}

/// One cycle among modules each of which imports another of them.
fn cycle(graph: &Graph, among: &BTreeSet<&str>) -> String {
    let mut path: Vec<&str> = among.iter().copied().take(1).collect();
    loop {
        let imports = path.last().and_then(|module| graph.get(*module));
        let next = imports.and_then(|imports| {
            imports.keys().map(String::as_str).find(|import| among.contains(import))
        });
        let Some(next) = next else { return "none".to_owned() };
        let begin = path.iter().position(|module| *module == next);
        path.push(next);
        if let Some(begin) = begin {
            let steps = path[begin..].windows(2).map(|step| {
                format!("{} imports {} in {}", step[0], step[1], graph[step[0]][step[1]])
            });
            return steps.collect::<Vec<_>>().join("\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*to).to_owned()).or_default();
            let file = format!("{from}.rs");
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned(), file);
        }
        graph
    }

    #[test]
    fn modules_are_layered_and_a_cycle_is_named() {
        let good = graph(&[("c", "b"), ("b", "a"), ("c", "a")]);
        assert_eq!(layers(&good), (vec![vec!["a"], vec!["b"], vec!["c"]], BTreeSet::new()));
        let bad = graph(&[("c", "b"), ("b", "a"), ("a", "b")]);
        let (_, rest) = layers(&bad);
        assert_eq!(cycle(&bad, &rest), "a imports b in a.rs\nb imports a in b.rs");
    }

    #[test]
    fn imports_of_tests_and_of_the_module_itself_do_not_count() {
        let file = "use crate::{a::{self, X}, b}; use super::super::c::Y; use super::d; \
                    #[cfg(test)] mod tests { use crate::e; } fn f() -> crate::g::Z { h::i() } \
                    struct S<T: crate::j::U = crate::k::V>(T);";
        let found = Imports::of(&syn::parse_file(file).unwrap(), &["m", "n"]);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "g", "j"]);
    }

    #[test]
    fn names_of_the_root_stand_for_their_modules() {
        let root = syn::parse_file("mod a; pub use a::{b::C, D};").unwrap();
        let expected = [("C", "a"), ("D", "a")].map(|(n, m)| (n.to_owned(), m.to_owned()));
        assert_eq!(reexports(&root), expected.into());
    }
}
