//! Prometheus' text format.

use std::fmt::{self, Display, Write as _};

/// A metric as Prometheus knows it.
pub(super) struct Family {
    pub(super) name: &'static str,
    kind: &'static str,
    help: &'static str,
}

impl Family {
    pub(super) const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "gauge", help }
    }

    pub(super) const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "histogram", help }
    }

    pub(super) const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "counter", help }
    }
}

/// What is told of one model.
pub(super) trait Named {
    /// The model's name.
    fn name(&self) -> &str;
}

/// A page in the making.
#[derive(Default)]
pub(super) struct Page(String);

impl Page {
    pub(super) fn head(&mut self, family: &Family) {
        let Family { name, kind, help } = family;
        self.line(format_args!("# HELP {PREFIX}_{name} {help}"));
        self.line(format_args!("# TYPE {PREFIX}_{name} {kind}"));
    }

    pub(super) fn value(&mut self, family: &Family, labels: &str, value: impl Display) {
        self.line(format_args!("{PREFIX}_{}{labels} {value}", family.name));
    }

    /// A value of a family whose series have names of their own.
    pub(super) fn part(&mut self, family: &Family, suffix: &str, labels: &str, value: impl Display) {
        self.line(format_args!("{PREFIX}_{}{suffix}{labels} {value}", family.name));
    }

    pub(super) fn single(&mut self, family: &Family, value: impl Display) {
        self.head(family);
        self.value(family, "", value);
    }

    /// A value for each model, by name.
    pub(super) fn per_model<M: Named, V: Display>(
        &mut self,
        family: &Family,
        models: &[M],
        read: impl Fn(&M) -> V,
    ) {
        self.head(family);
        for model in models {
            self.value(family, &format!("{{model={:?}}}", model.name()), read(model));
        }
    }

    pub(super) fn text(self) -> String {
        self.0
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a String takes any text");
    }
}

const PREFIX: &str = "tokenrouter";
