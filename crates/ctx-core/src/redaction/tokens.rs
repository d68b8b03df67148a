//! Secrets with a form of their own: keys, tokens, and passwords in URLs.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};

use super::Redactor;

/// A rule: the kind, the pattern, and whether a match is a secret. If the pattern has a group
/// `secret`, only that group is replaced.
struct Rule {
    kind: &'static str,
    pattern: &'static str,
    is_secret: fn(&str) -> bool,
}

const fn rule(kind: &'static str, pattern: &'static str) -> Rule {
    Rule { kind, pattern, is_secret: |_| true }
}

/// Characters without a separator after which `sk-…` is a key and not a name with hyphens.
const KEY_RUN_MIN: usize = 16;

/// The rules in the order in which they are applied: the more specific form first.
const RULES: [Rule; 17] = [
    // Also a key whose end is missing, and one whose line breaks are escaped.
    rule(
        "private_key",
        concat!(
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
            r"(?:[\s\S]*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
            r"|(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{16,})*)",
        ),
    ),
    rule("jwt", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    rule("aws_access_key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    rule("github_token", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    rule("github_token", r"\bgithub_pat_[A-Za-z0-9_]{22,}\b"),
    rule(
        "gitlab_token",
        concat!(
            r"\b(?:gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{20,}",
            r"|GR1348941[A-Za-z0-9_-]{20,})",
        ),
    ),
    rule("slack_token", r"\bxox[abceoprs]-(?:\d-)?[A-Za-z0-9-]{10,}"),
    rule("slack_token", r"\bxapp-\d-[A-Za-z0-9-]{10,}"),
    rule(
        "slack_webhook",
        r"\bhttps://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9_+/-]{20,}",
    ),
    rule("anthropic_key", r"\bsk-ant-[A-Za-z0-9_-]{16,}"),
    rule("openai_key", r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{16,}"),
    Rule {
        kind: "openai_key",
        pattern: r"\bsk-[A-Za-z0-9_-]{20,}",
        is_secret: |text| text.split(['-', '_']).any(|run| run.len() >= KEY_RUN_MIN),
    },
    rule("google_key", r"\bAIza[0-9A-Za-z_-]{35}"),
    rule("google_key", r"\b(?:ya29\.[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{20,})"),
    Rule {
        kind: "url_password",
        pattern: concat!(
            r"\b[A-Za-z][A-Za-z0-9+.-]{1,31}://",
            r#"[^\s/:@"'<>\[\]\\]*:(?P<secret>[^\s/@"'<>\[\]\\]+)@"#,
        ),
        is_secret: |text| !is_placeholder(text),
    },
    Rule {
        kind: "bearer_token",
        pattern: r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/-]{16,}=*)",
        is_secret: is_mixed,
    },
    Rule {
        kind: "basic_auth",
        pattern: concat!(
            r#"(?i)\bauthorization["']?\s*[:=]\s*["']?(?:basic|token)\s+"#,
            r"(?P<secret>[A-Za-z0-9._~+/-]{8,}=*)",
        ),
        is_secret: |_| true,
    },
];

static SET: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(RULES.iter().map(|rule| rule.pattern)).expect("the patterns are constants")
});
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let compile = |rule: &Rule| Regex::new(rule.pattern).expect("the patterns are constants");
    RULES.iter().map(compile).collect()
});

/// Replaces the secrets that have a form of their own.
pub(super) fn replace<'a>(text: &'a str, redactor: &mut Redactor) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    // A text without any match is the usual case, so all patterns are searched at once.
    for at in &SET.matches(&text) {
        let rule = &RULES[at];
        let one = |found: &Captures<'_>| {
            let whole = found.get(0).map_or("", |whole| whole.as_str());
            let Some(start) = found.get(0).map(|whole| whole.start()) else { return String::new() };
            let secret = found.name("secret").or_else(|| found.get(0));
            let Some(secret) = secret.filter(|secret| (rule.is_secret)(secret.as_str())) else {
                return whole.to_owned();
            };
            let (before, after) = (secret.start() - start, secret.end() - start);
            format!("{}{}{}", &whole[..before], redactor.mark(rule.kind), &whole[after..])
        };
        if let Cow::Owned(changed) = PATTERNS[at].replace_all(&text, one)
            && changed != text
        {
            text = Cow::Owned(changed);
        }
    }
    text
}

/// Whether a text stands for a secret that is elsewhere: a variable, a template, asterisks.
pub(super) fn is_placeholder(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    text.starts_with(['$', '<', '{', '%', '*', '#', '['])
        || text.contains("${")
        || text.contains("{{")
        || text.contains("...")
        || text.contains('…')
        || text.chars().all(|c| matches!(c, '*' | 'x' | 'X' | '.' | '-' | '_' | '•'))
        || lower.starts_with("your")
        || lower.starts_with("example")
        || lower.starts_with("changeme")
        || lower.starts_with("[redacted")
}

/// Whether a text has digits, or letters of both cases inside: not a word of a sentence.
fn is_mixed(text: &str) -> bool {
    let inner_upper = text.chars().skip(1).any(|c| c.is_ascii_uppercase());
    let lower = text.chars().any(|c| c.is_ascii_lowercase());
    !is_placeholder(text) && (text.chars().any(|c| c.is_ascii_digit()) || (inner_upper && lower))
}
