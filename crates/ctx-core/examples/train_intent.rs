//! Trains and measures the linear model of the intent classifier.
//!
//! `cargo run --release -p ctx-core --example train_intent` prints the measurement by author: each
//! author's messages are classified by a model that was trained without them. `-- --write` also
//! writes the weights and `docs/intent-classifier.md`.

use std::fmt::Write as _;
use std::path::Path;

use ctx_core::intent::{
    BUCKETS, CLASSES, ClassifierInput, Feature, Intent, Weights, classify, data_hash, decide,
    features, softmax,
};
use ctx_core::task::StateName;

/// The messages of the requirements. They are trained with, and not measured.
const CONTRACT: &str = "contract";

struct Example {
    author: usize,
    line: usize,
    language: String,
    state: Option<StateName>,
    wanted: Intent,
    text: String,
    features: Vec<Feature>,
    certain: Option<Intent>,
    is_contract: bool,
}

struct Data {
    authors: Vec<String>,
    examples: Vec<Example>,
}

fn read(directory: &Path) -> Data {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .expect("the data directory is readable")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".tsv").map(str::to_owned))
        .collect();
    names.sort();
    let mut examples = Vec::new();
    for (author, name) in names.iter().enumerate() {
        let file = std::fs::read_to_string(directory.join(format!("{name}.tsv")))
            .expect("a data file is readable");
        let mut situation = (None, String::new(), String::new());
        for (line, text) in file.lines().enumerate() {
            if let Some(head) = text.strip_prefix('@') {
                let mut parts = head.split('|').map(|part| part.trim().to_owned());
                let state = parts.next().expect("a state");
                let state = StateName::ALL.into_iter().find(|known| known.name() == state);
                situation =
                    (state, parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                continue;
            }
            let mut parts = text.splitn(3, '\t');
            let (Some(language), Some(intent), Some(text)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let wanted = Intent::ALL
                .into_iter()
                .find(|known| known.name() == intent)
                .unwrap_or_else(|| panic!("{name}:{line}: intent {intent}"));
            let some = |text: &String| (!text.is_empty()).then(|| text.clone());
            let (task, question) = (some(&situation.1), some(&situation.2));
            let input = ClassifierInput {
                state: situation.0,
                task: task.as_deref(),
                question: question.as_deref(),
            };
            let found = features(text, &input);
            examples.push(Example {
                author,
                line: line + 1,
                language: language.to_owned(),
                state: situation.0,
                wanted,
                text: text.to_owned(),
                certain: found.certain(),
                is_contract: name == CONTRACT,
                features: found.list,
            });
        }
    }
    Data { authors: names, examples }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 24) as f32
    }
}

fn setting(name: &str, default: f32) -> f32 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

type Rows = Vec<[f32; CLASSES]>;

/// The mean of several models, each trained with another order and other omissions. The mean of
/// linear models is a linear model, with less chance in it.
fn train(examples: &[&Example]) -> Rows {
    let models = setting("MODELS", 4.0) as u64;
    let mut mean: Rows = vec![[0.0; CLASSES]; BUCKETS];
    for model in 0..models {
        for (row, new) in mean.iter_mut().zip(train_one(examples, model)) {
            for (weight, new) in row.iter_mut().zip(new) {
                *weight += new / models as f32;
            }
        }
    }
    mean
}

/// How often a message of the requirements is in the training data. They are few and must hold.
const CONTRACT_COPIES: usize = 1;

fn train_one(examples: &[&Example], seed: u64) -> Rows {
    let epochs = setting("EPOCHS", 24.0) as usize;
    let rate = setting("RATE", 0.12);
    let decay = setting("DECAY", 2e-4);
    let dropout = setting("DROPOUT", 0.5);
    let mut rows: Rows = vec![[0.0; CLASSES]; BUCKETS];
    let mut squares: Rows = vec![[1e-3; CLASSES]; BUCKETS];
    let mut sum: Rows = vec![[0.0; CLASSES]; BUCKETS];
    let copies = |at: usize| if examples[at].is_contract { CONTRACT_COPIES } else { 1 };
    let mut order: Vec<usize> =
        (0..examples.len()).flat_map(|at| std::iter::repeat_n(at, copies(at))).collect();
    let mut random = Random(0x5eed_1234_abcd_0001 + seed * 0x1_0001);
    let mut kept: Vec<Feature> = Vec::new();
    for epoch in 0..epochs {
        for at in (1..order.len()).rev() {
            order.swap(at, (random.next() % (at as u64 + 1)) as usize);
        }
        for &at in &order {
            let example = examples[at];
            kept.clear();
            for feature in &example.features {
                if !feature.is_lexical || random.unit() >= dropout {
                    let scale = if feature.is_lexical { 1.0 / (1.0 - dropout) } else { 1.0 };
                    kept.push(Feature { value: feature.value * scale, ..*feature });
                }
            }
            let mut scores = [0.0; CLASSES];
            for feature in &kept {
                for (score, weight) in scores.iter_mut().zip(rows[feature.bucket as usize]) {
                    *score += weight * feature.value;
                }
            }
            let mut error = softmax(&scores, example.state);
            error[example.wanted as usize] -= 1.0;
            for feature in &kept {
                let bucket = feature.bucket as usize;
                for class in 0..CLASSES {
                    let weight = &mut rows[bucket][class];
                    let gradient = error[class] * feature.value + decay * *weight;
                    let square = &mut squares[bucket][class];
                    *square += gradient * gradient;
                    *weight -= rate * gradient / square.sqrt();
                }
            }
        }
        if epoch * 2 >= epochs {
            for (sum, row) in sum.iter_mut().zip(&rows) {
                for class in 0..CLASSES {
                    sum[class] += row[class];
                }
            }
        }
    }
    let count = (epochs - epochs.div_ceil(2)) as f32;
    for row in &mut sum {
        for weight in row {
            *weight /= count;
        }
    }
    sum
}

/// A message of the author who was left out, and its result.
struct Tested<'a> {
    example: &'a Example,
    found: Intent,
}

fn evaluate<'a>(data: &'a Data) -> Vec<Tested<'a>> {
    let fold = |author: usize| -> Vec<Tested<'a>> {
        let others: Vec<&Example> =
            data.examples.iter().filter(|example| example.author != author).collect();
        let file = Weights::encode(&[0; 32], &train(&others));
        let weights = Weights::decode(&file).expect("the weights are readable");
        data.examples
            .iter()
            .filter(|example| example.author == author)
            .map(|example| {
                let probabilities = weights.probabilities(&example.features, example.state);
                let found =
                    example.certain.unwrap_or_else(|| decide(&probabilities, example.state));
                Tested { example, found }
            })
            .collect()
    };
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..data.authors.len())
            .filter(|author| data.authors[*author] != CONTRACT)
            .map(|author| scope.spawn(move || fold(author)))
            .collect();
        for thread in threads {
            all.extend(thread.join().expect("training does not panic"));
        }
    });
    all
}

fn rate<'a>(tested: impl Iterator<Item = &'a Tested<'a>>) -> (f32, usize) {
    let (mut right, mut count) = (0, 0);
    for one in tested {
        count += 1;
        right += usize::from(one.found == one.example.wanted);
    }
    (right as f32 / count.max(1) as f32, count)
}

const INTRODUCTION: &str = "\
# The intent classifier

Rules decide what is certain (`crates/ctx-core/src/intent/rules.rs`); a linear model decides the
rest (`intent/model.rs`). Its features (`intent/features.rs`) are n-grams of letters, words, word
pairs, concepts that all languages share (`data/intent/concepts`), the state of the task and the
result of the rules. The data is in `crates/ctx-core/data/intent`: one file for each author.

This page is written by `./dev intent`. Each author's messages are classified by a model that was
trained without them.

";

/// The measurement as a document.
fn report(data: &Data, tested: &[Tested<'_>]) -> String {
    let mut text = String::from(INTRODUCTION);
    let others = tested.iter().filter(|one| one.example.wanted != Intent::Abandon).count();
    let false_abandon = tested
        .iter()
        .filter(|one| one.example.wanted != Intent::Abandon && one.found == Intent::Abandon)
        .count();
    let (all, count) = rate(tested.iter());
    let _ = writeln!(text, "| measure | value |\n|---|---|");
    let _ = writeln!(text, "| messages | {count} |\n| right | {all:.4} |");
    let share = false_abandon as f32 / others as f32;
    let _ = writeln!(text, "| other messages classified as abandon | {share:.4} |\n");
    let _ = writeln!(text, "| author | right | messages |\n|---|---|---|");
    for (author, name) in data.authors.iter().enumerate().filter(|(_, name)| *name != CONTRACT) {
        let (part, count) = rate(tested.iter().filter(|one| one.example.author == author));
        let _ = writeln!(text, "| {name} | {part:.3} | {count} |");
    }
    let mut languages: Vec<&str> = tested.iter().map(|one| &*one.example.language).collect();
    languages.sort_unstable();
    languages.dedup();
    let _ = writeln!(text, "\n| language | right | messages |\n|---|---|---|");
    for language in languages {
        let (part, count) = rate(tested.iter().filter(|one| one.example.language == language));
        let _ = writeln!(text, "| {language} | {part:.3} | {count} |");
    }
    let names = Intent::ALL.map(Intent::name).join(" | ");
    let _ = writeln!(text, "\nA row is what the author meant, a column what was found.\n");
    let _ = writeln!(text, "| | right | {names} |\n|---|---|---|---|---|---|---|---|---|");
    for wanted in Intent::ALL {
        let (part, _) = rate(tested.iter().filter(|one| one.example.wanted == wanted));
        let _ = write!(text, "| {} | {part:.3}", wanted.name());
        for found in Intent::ALL {
            let is_it = |one: &&Tested<'_>| one.example.wanted == wanted && one.found == found;
            let _ = write!(text, " | {}", tested.iter().filter(is_it).count());
        }
        let _ = writeln!(text, " |");
    }
    text
}

/// Time to classify a message, in microseconds.
fn cost(directory: &Path) -> f64 {
    let file = std::fs::read_to_string(directory.join("office.tsv")).expect("a data file");
    let texts: Vec<&str> = file.lines().filter_map(|line| line.split('\t').nth(2)).collect();
    let input = ClassifierInput { state: Some(StateName::Running), ..ClassifierInput::default() };
    let run = || texts.iter().map(|text| classify(text, &input).reason.len()).sum::<usize>();
    run();
    let started = std::time::Instant::now();
    std::hint::black_box(run());
    started.elapsed().as_secs_f64() * 1e6 / texts.len() as f64
}

/// The files of the training data, in the order of their paths.
fn data_files(directory: &Path) -> impl Iterator<Item = Vec<u8>> {
    let mut files: Vec<_> = [directory.to_owned(), directory.join("concepts")]
        .iter()
        .flat_map(|directory| std::fs::read_dir(directory).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "tsv" || kind == "txt"))
        .collect();
    files.sort();
    files.into_iter().map(|file| std::fs::read(file).unwrap_or_default())
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = root.join("data/intent");
    let data = read(&directory);
    eprintln!("{} messages, {:.0} µs for each", data.examples.len(), cost(&directory));
    let tested = evaluate(&data);
    let text = report(&data, &tested);
    print!("{text}");
    if std::env::args().any(|argument| argument == "--write") {
        let all: Vec<&Example> = data.examples.iter().collect();
        let file = Weights::encode(&data_hash(data_files(&directory)), &train(&all));
        std::fs::write(directory.join("weights.bin"), file).expect("the weights are written");
        std::fs::write(root.join("../../docs/intent-classifier.md"), text).expect("the page");
    }
    if let Ok(path) = std::env::var("ERRORS") {
        let mut text = String::new();
        for one in tested.iter().filter(|one| one.found != one.example.wanted) {
            let example = one.example;
            let _ = writeln!(
                text,
                "{}:{}\t{}\t{}\t{}->{}\t{}",
                data.authors[example.author],
                example.line,
                example.state.map_or("none", |state| state.name()),
                example.language,
                example.wanted.name(),
                one.found.name(),
                example.text
            );
        }
        std::fs::write(path, text).expect("the list of errors is written");
    }
}
