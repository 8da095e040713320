//! The mutants of a source file: one small change each, by the bytes that it replaces.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ReturnType, Stmt, Type};

/// How a mutant is written into the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Edit {
    /// Another expression instead of the one in the span.
    Expression,
    /// The statement in the span is left out.
    Statement,
    /// The function returns at its start; the span is empty.
    Return,
}

/// One change of one file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Mutant {
    /// From the root of the repository.
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) function: String,
    pub(super) edit: Edit,
    pub(super) span: Range<usize>,
    /// The function's body: what rustc may refuse because of the mutant.
    pub(super) body: Range<usize>,
    pub(super) original: String,
    pub(super) replacement: String,
    /// The number of the mutant among equal ones of its function.
    pub(super) ordinal: usize,
}

impl Mutant {
    /// Names the mutant in results and in the list of accepted survivors: lines above it do not change the name.
    pub(super) fn key(&self) -> String {
        let again = if self.ordinal == 0 { String::new() } else { format!(" #{}", self.ordinal) };
        format!(
            "{} {}: {} -> {}{again}",
            self.file,
            self.function,
            short(&self.original),
            short(&self.replacement)
        )
    }
}

/// One line of at most 70 characters.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.char_indices().nth(70).map_or(line.len(), |(end, _)| end);
    let cut = if end < line.len() { "…" } else { "" };
    format!("{}{cut}", &line[..end])
}

/// Lists the mutants of `text`, in the order of the source.
pub(super) fn mutants(file: &str, text: &str) -> syn::Result<Vec<Mutant>> {
    let mut finder = Finder { file, text, owner: String::new(), within: Vec::new(), found: Vec::new() };
    finder.visit_file(&syn::parse_file(text)?);
    let mut found = finder.found;
    found.sort_by_key(|mutant| mutant.span.start);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for mutant in &mut found {
        let equal = seen.entry(mutant.key()).or_default();
        mutant.ordinal = *equal;
        *equal += 1;
    }
    Ok(found)
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    /// The type of the impl block.
    owner: String,
    /// The functions around, the innermost last, with their bodies.
    within: Vec<(String, Range<usize>)>,
    found: Vec<Mutant>,
}

impl Finder<'_> {
    fn source(&self, span: Range<usize>) -> &str {
        self.text.get(span).unwrap_or_default()
    }

    fn add(&mut self, edit: Edit, span: Range<usize>, replacement: &str) {
        let Some((function, body)) = self.within.last().cloned() else { return };
        let original = match edit {
            Edit::Return => "body".to_owned(),
            Edit::Expression | Edit::Statement => self.source(span.clone()).to_owned(),
        };
        self.found.push(Mutant {
            file: self.file.to_owned(),
            line: self.text.get(..span.start).map_or(0, |before| before.matches('\n').count()) + 1,
            function,
            edit,
            span,
            body,
            original,
            replacement: replacement.to_owned(),
            ordinal: 0,
        });
    }

    fn replace(&mut self, what: &impl syn::spanned::Spanned, replacement: &str) {
        self.add(Edit::Expression, what.span().byte_range(), replacement);
    }

    /// Visits a function that runs at run time, and adds early returns of values that its type has.
    fn function(&mut self, attrs: &[syn::Attribute], sig: &syn::Signature, block: &syn::Block) {
        if is_test(attrs) || sig.constness.is_some() {
            return;
        }
        let owner = if self.owner.is_empty() { String::new() } else { format!("{}::", self.owner) };
        let open = block.brace_token.span.open().byte_range().end;
        let body = block.span().byte_range();
        self.within.push((format!("{owner}{}", sig.ident), body));
        if !block.stmts.is_empty() {
            for value in defaults(&sig.output) {
                self.add(Edit::Return, open..open, value);
            }
        }
        visit::visit_block(self, block);
        self.within.pop();
    }

    fn condition(&mut self, condition: &Expr, values: &[&str]) {
        if !has_let(condition) {
            for value in values {
                self.replace(condition, value);
            }
        }
    }
}

/// The early returns of a function: none where its type has no obvious value.
fn defaults(output: &ReturnType) -> &'static [&'static str] {
    let ReturnType::Type(_, ty) = output else { return &["return"] };
    let Type::Path(path) = &**ty else { return &[] };
    let Some(last) = path.path.segments.last() else { return &[] };
    match last.ident.to_string().as_str() {
        "bool" => &["return true", "return false"],
        "Option" => &["return None"],
        "usize" | "u64" | "u32" | "i64" | "i32" | "u128" | "i128" => &["return 0"],
        "Vec" | "BTreeMap" | "BTreeSet" | "String" => &["return Default::default()"],
        _ => &[],
    }
}

fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| match attr.path().get_ident() {
        Some(name) if name == "cfg" => attr.span().source_text().is_some_and(|text| text.contains("test")),
        Some(name) => name == "test" || name == "rstest",
        None => false,
    })
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        Expr::Paren(inner) => has_let(&inner.expr),
        _ => false,
    }
}

/// The operators that replace `op`.
fn others(op: &BinOp) -> &'static [&'static str] {
    match op {
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) | BinOp::Mul(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Div(_) => &["*"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    // What is no code at run time.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_pat(&mut self, pattern: &'ast syn::Pat) {
        if let syn::Pat::Guard(guarded) = pattern {
            self.visit_pat_guard(guarded);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let name = self.source(item.self_ty.span().byte_range()).to_owned();
        let name = name.split(['<', ' ']).next().unwrap_or_default().to_owned();
        let outer = std::mem::replace(&mut self.owner, name);
        visit::visit_item_impl(self, item);
        self.owner = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.attrs, &item.sig, block);
        }
    }

    fn visit_expr_repeat(&mut self, item: &'ast syn::ExprRepeat) {
        self.visit_expr(&item.expr);
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(_)) = stmt
            && let Expr::MethodCall(_) | Expr::Call(_) | Expr::Assign(_) | Expr::Try(_) | Expr::Continue(_) =
                expr
        {
            self.add(Edit::Statement, stmt.span().byte_range(), "nothing");
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr_binary(&mut self, item: &'ast syn::ExprBinary) {
        if !has_let(&item.left) && !has_let(&item.right) {
            let (left, right) = (item.left.span().byte_range(), item.right.span().byte_range());
            for other in others(&item.op) {
                let text = format!("{} {other} {}", self.source(left.clone()), self.source(right.clone()));
                self.add(Edit::Expression, left.start..right.end, &text);
            }
        }
        visit::visit_expr_binary(self, item);
    }

    fn visit_expr_unary(&mut self, item: &'ast syn::ExprUnary) {
        if let syn::UnOp::Not(_) = item.op {
            let inner = self.source(item.expr.span().byte_range()).to_owned();
            self.add(Edit::Expression, item.span().byte_range(), &inner);
        }
        visit::visit_expr_unary(self, item);
    }

    fn visit_expr_lit(&mut self, item: &'ast syn::ExprLit) {
        if let syn::Lit::Int(number) = &item.lit
            && let Ok(value) = number.base10_parse::<u64>()
        {
            self.replace(item, &format!("{}{}", value.saturating_add(1), number.suffix()));
        }
    }

    fn visit_expr_if(&mut self, item: &'ast syn::ExprIf) {
        self.condition(&item.cond, &["true", "false"]);
        visit::visit_expr_if(self, item);
    }

    fn visit_pat_guard(&mut self, guarded: &'ast syn::PatGuard) {
        self.condition(&guarded.guard, &["true", "false"]);
        self.visit_expr(&guarded.guard);
    }

    fn visit_expr_method_call(&mut self, item: &'ast syn::ExprMethodCall) {
        let name = item.method.to_string();
        let pairs = [
            ("min", "max"),
            ("any", "all"),
            ("is_some_and", "is_none_or"),
            ("saturating_add", "saturating_sub"),
        ];
        let other = pairs.iter().find_map(|(a, b)| match name.as_str() {
            name if name == *a => Some(*b),
            name if name == *b => Some(*a),
            _ => None,
        });
        if let Some(other) = other {
            let (whole, method) = (item.span().byte_range(), item.method.span().byte_range());
            let before = self.source(whole.start..method.start);
            let text = format!("{before}{other}{}", self.source(method.end..whole.end));
            self.add(Edit::Expression, whole, &text);
        }
        visit::visit_expr_method_call(self, item);
    }
}
