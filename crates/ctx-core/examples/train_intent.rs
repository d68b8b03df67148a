//! Trains and measures the linear model of the intent classifier.

use std::fmt::Write as _;
use std::path::Path;

use ctx_core::intent::{
    BUCKETS, CLASSES, ClassifierInput, Feature, Intent, Weights, decide, features, softmax,
};
use ctx_core::task::StateName;

struct Example {
    author: usize,
    line: usize,
    language: String,
    state: Option<StateName>,
    wanted: Intent,
    text: String,
    features: Vec<Feature>,
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
            examples.push(Example {
                author,
                line: line + 1,
                language: language.to_owned(),
                state: situation.0,
                wanted,
                text: text.to_owned(),
                features: features(text, &input).list,
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

fn train(examples: &[&Example]) -> Rows {
    let epochs = setting("EPOCHS", 24.0) as usize;
    let rate = setting("RATE", 0.15);
    let decay = setting("DECAY", 1e-5);
    let dropout = setting("DROPOUT", 0.3);
    let mut rows: Rows = vec![[0.0; CLASSES]; BUCKETS];
    let mut squares: Rows = vec![[1e-3; CLASSES]; BUCKETS];
    let mut sum: Rows = vec![[0.0; CLASSES]; BUCKETS];
    let mut order: Vec<usize> = (0..examples.len()).collect();
    let mut random = Random(0x5eed_1234_abcd_0001);
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
    probabilities: [f32; CLASSES],
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
                let found = decide(&probabilities, example.state);
                Tested { example, found, probabilities }
            })
            .collect()
    };
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..data.authors.len())
            .filter(|author| data.authors[*author] != "contract")
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

fn report(data: &Data, tested: &[Tested<'_>]) -> String {
    let mut text = String::new();
    let (all, count) = rate(tested.iter());
    let _ = writeln!(text, "accuracy {all:.4} of {count}");
    for (author, name) in data.authors.iter().enumerate() {
        let (part, count) = rate(tested.iter().filter(|one| one.example.author == author));
        let _ = writeln!(text, "  {name} {part:.3} {count}");
    }
    let mut languages: Vec<&str> = tested.iter().map(|one| &*one.example.language).collect();
    languages.sort_unstable();
    languages.dedup();
    for language in languages {
        let (part, _) = rate(tested.iter().filter(|one| one.example.language == language));
        let _ = write!(text, "  {language} {part:.3}");
    }
    let _ = writeln!(text);
    for wanted in Intent::ALL {
        let (part, _) = rate(tested.iter().filter(|one| one.example.wanted == wanted));
        let _ = write!(text, "{:14} {part:.3} ", wanted.name());
        for found in Intent::ALL {
            let count = tested
                .iter()
                .filter(|one| one.example.wanted == wanted && one.found == found)
                .count();
            let _ = write!(text, "{count:5}");
        }
        let _ = writeln!(text);
    }
    let others = tested.iter().filter(|one| one.example.wanted != Intent::Abandon).count();
    let false_abandon = tested
        .iter()
        .filter(|one| one.example.wanted != Intent::Abandon && one.found == Intent::Abandon)
        .count();
    let _ = writeln!(text, "false abandon {:.4}", false_abandon as f32 / others as f32);
    text
}

fn main() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/intent");
    let data = read(&directory);
    eprintln!("{} messages", data.examples.len());
    let tested = evaluate(&data);
    print!("{}", report(&data, &tested));
    if let Ok(path) = std::env::var("ERRORS") {
        let mut text = String::new();
        for one in tested.iter().filter(|one| one.found != one.example.wanted) {
            let example = one.example;
            let _ = writeln!(
                text,
                "{}:{}\t{}\t{}\t{}->{}\t{:.2}/{:.2}\t{}",
                data.authors[example.author],
                example.line,
                example.state.map_or("none", |state| state.name()),
                example.language,
                example.wanted.name(),
                one.found.name(),
                one.probabilities[example.wanted as usize],
                one.probabilities[one.found as usize],
                example.text
            );
        }
        std::fs::write(path, text).expect("the list of errors is written");
    }
}
