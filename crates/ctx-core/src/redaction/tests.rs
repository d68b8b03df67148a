//! Tables of texts with and without secrets.

use serde_json::json;

use super::*;

fn redacted(text: &str) -> (String, Redactor) {
    let mut redactor = Redactor::default();
    let text = redactor.text(text).into_owned();
    (text, redactor)
}

/// Each secret is built from parts, so that no scanner reports this file.
#[test]
fn every_kind_of_secret_is_replaced_and_counted_once() {
    let letters = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6kL9";
    let jwt = format!("eyJ{}.eyJ{}.{}", &letters[..20], &letters[..24], &letters[..30]);
    let key = "MIIEpAIBAAKCAQEA7\nabcDEF123+/=\n";
    let cases = [
        (
            format!("-----BEGIN RSA PRIVATE KEY-----\n{key}-----END RSA PRIVATE KEY-----"),
            "private_key",
        ),
        (format!("-----BEGIN OPENSSH PRIVATE KEY-----\\n{}", &letters[..30]), "private_key"),
        (jwt, "jwt"),
        (format!("AKIA{}", "IOSFODNN7EXAMPLE"), "aws_access_key"),
        (format!("AWS_SECRET_ACCESS_KEY={letters}"), "aws_secret_key"),
        (format!("ghp_{}", &letters[..36]), "github_token"),
        (format!("github_pat_{}", &letters[..30]), "github_token"),
        (format!("glpat-{}", &letters[..20]), "gitlab_token"),
        (format!("xoxb-{}-{}", "123456789012", &letters[..24]), "slack_token"),
        (format!("https://hooks.slack.com/services/T00/B00/{}", &letters[..24]), "slack_webhook"),
        (format!("sk-ant-api03-{}", &letters[..30]), "anthropic_key"),
        (format!("sk-proj-{}", &letters[..30]), "openai_key"),
        (format!("sk-{}", &letters[..32]), "openai_key"),
        (format!("AIza{}", &letters[..35]), "google_key"),
        ("postgres://app:hunter2@db.example.com/app".to_owned(), "url_password"),
        (format!("Authorization: Bearer {}", &letters[..24]), "bearer_token"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==".to_owned(), "basic_auth"),
        ("DB_PASSWORD=hunter2".to_owned(), "password"),
        ("export PGPASSWORD='correct-horse'".to_owned(), "password"),
        ("password: hunter2".to_owned(), "password"),
        ("GITHUB_TOKEN=abcdef".to_owned(), "secret"),
        (r#"{"api_key": "9f8e7d6c5b4a"}"#.to_owned(), "secret"),
        (r#"{\"client_secret\":\"9f8e7d6c5b4a\"}"#.to_owned(), "secret"),
        ("curl --token s3cr3t-value".to_owned(), "secret"),
        (format!("authKeyMaterial = \"{}\"", &letters[..32]), "high_entropy"),
    ];
    for (secret, kind) in cases {
        let text = format!("before\n{secret}\nafter");
        let (clean, redactor) = redacted(&text);
        let counts: Vec<_> = redactor.counts().iter().map(|(kind, n)| (*kind, *n)).collect();
        assert_eq!(counts, [(kind, 1)], "{secret} became {clean}");
        assert!(clean.contains(&format!("[redacted:{kind}]")), "{clean}");
        assert!(clean.starts_with("before\n") && clean.ends_with("\nafter"), "{clean}");
        assert!(!clean.contains("hunter2") && !clean.contains(&letters[..20]), "{clean}");
        assert_eq!(redacted(&clean).0, clean, "a second pass finds nothing");
    }
}

#[test]
fn hashes_ids_images_code_and_placeholders_are_kept() {
    let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let cases = [
        format!("commit {hash}"),
        format!("sha256: {hash}"),
        format!("{{\"cache_key\": \"{hash}\"}}"),
        "id = \"6acab83c-6885-4b8d-9028-ea4b571c433a\"".to_owned(),
        "key: 01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(),
        "\"idempotency_key\": \"01ARZ3NDEKTSV4RRFFQ69G5FAV\"".to_owned(),
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4n\
         GNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg=="
            .to_owned(),
        "let token = parser.next_token();".to_owned(),
        "fn login(password: &str, token: Option<String>) {}".to_owned(),
        "max_tokens: 4096, input_tokens=128000, \"total_tokens\": 1234567890123".to_owned(),
        "password = os.environ[\"DB_PASSWORD\"]".to_owned(),
        "API_KEY=$OPENAI_API_KEY".to_owned(),
        "API_KEY=${KEY}; TOKEN=<your token>; SECRET=********".to_owned(),
        "api_key_env = \"LOCAL_KEY\"".to_owned(),
        "\"password\": \"Enter your password here\"".to_owned(),
        "Use Bearer authentication tokens in the header.".to_owned(),
        "import sk-learn-pipeline-and-more-words".to_owned(),
        "http://127.0.0.1:8080/path?user=me@example.com".to_owned(),
        "git clone ssh://git@example.com:22/repo.git".to_owned(),
        "SECRET_FILE=/run/secrets/token PASSWORD_FILE=/x".to_owned(),
        "TOKEN=/run/secrets/token".to_owned(),
        "the secret: be kind".to_owned(),
        "fetch(url, { credentials: 'same-origin' })".to_owned(),
        "postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE".to_owned(),
        "author = \"AbCdEfGhIjKlMnOpQrStUvWx123\"".to_owned(),
    ];
    for text in cases {
        let (clean, redactor) = redacted(&text);
        assert_eq!(clean, text, "{:?}", redactor.counts());
        assert_eq!(redactor.total(), 0);
    }
}

#[test]
fn fields_of_json_are_redacted_by_their_names() {
    let mut redactor = Redactor::default();
    let mut value =
        json!({"env": {"DB_PASSWORD": "correct-horse"}, "list": ["TOKEN=abcdef"], "n": 1});
    assert!(redactor.value(&mut value));
    let expected = json!({
        "env": {"DB_PASSWORD": "[redacted:password]"},
        "list": ["TOKEN=[redacted:secret]"],
        "n": 1,
    });
    assert_eq!(value, expected);
    assert_eq!(redactor.total(), 2);
}

#[test]
fn changed_reasoning_loses_the_form_that_its_provider_signed() {
    let mut redactor = Redactor::default();
    let (mut text, mut raw) = ("plain".to_owned(), Some(json!({"signature": "x"})));
    assert!(!redactor.thought(&mut text, &mut raw) && raw.is_some());
    let mut text = "TOKEN=abcdef".to_owned();
    let mut raw = Some(json!({"thinking": "TOKEN=abcdef", "signature": "x"}));
    assert!(redactor.thought(&mut text, &mut raw) && raw.is_none());
    assert_eq!(redactor.total(), 1, "the copy is counted once");
}

#[test]
fn blobs_of_text_change_and_others_do_not() {
    let mut redactor = Redactor::default();
    let secret = Named::from(Object::blob(b"TOKEN=abcdef\n".repeat(400)));
    let binary = Named::from(Object::blob(vec![0xff; 5000]));
    let (blobs, changed) = redactor.blobs(vec![secret.clone(), binary.clone()]);
    assert_eq!(redactor.total(), 400);
    assert_eq!(blobs[1].id(), binary.id());
    let new = changed[&BlobId(secret.id())];
    assert_eq!((new.0.0, new.1), (blobs[0].id(), blobs[0].object().bytes.len() as u64));
}
