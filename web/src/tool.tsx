// A tool call: folded, with what it was called with, what it changed and what it answered.
import { useState } from 'preact/hooks';
import { request, told } from './api';
import { Chip, plain } from './bits';
import { Fold, useFold } from './block';
import { changeIn, unified, without, type Line } from './diff';
import type { Row } from './rows';

/** How many characters of a tool's output are shown before it is asked for more. */
const OUTPUT_CHARS_MAX = 4000;
/** The status of a call as words and a tone. */
const CALLS: Record<string, [string, string]> = {
  pending: ['waiting', 'ask'],
  running: ['running', 'live'],
  completed: ['done', 'good'],
  failed: ['failed', 'bad'],
  unknown: ['outcome unknown', 'ask'],
};

export function Tool({ row, waits }: { row: Row & { kind: 'tool' }; waits: boolean }) {
  const { call, result } = row;
  const status = call?.status === 'running' && !row.live ? (result ? 'completed' : 'unknown') : (call?.status ?? (result?.is_error ? 'failed' : 'completed'));
  const [word, tone] = CALLS[waits && status === 'running' ? 'pending' : status] ?? [plain(status), ''];
  const change = changeIn(call?.params);
  const title = (
    <>
      <code>{call?.name ?? 'result'}</code>
      <span class="hint">{call ? brief(call.params) : result?.tool_call_id}</span>
      <Chip tone={tone}>{word}</Chip>
    </>
  );
  return (
    <Fold name={row.key} title={title} tone={`tool ${status === 'failed' ? 'bad' : ''}`}>
      {() => (
        <>
          {change ? <Diff lines={change} /> : null}
          {call && call.params !== null && <Output title="Input" text={pretty(change ? without(call.params) : call.params)} />}
          {result ? <Result result={result} name={row.key} /> : <p class="hint">No result yet.</p>}
        </>
      )}
    </Fold>
  );
}

/** The most telling parameter in one line. */
export function brief(params: unknown): string {
  if (typeof params !== 'object' || params === null) return '';
  const fields = Object.entries(params as Record<string, unknown>);
  const told = fields.find(([name]) => ['command', 'path', 'file_path', 'query', 'pattern', 'url'].includes(name)) ?? fields[0];
  if (!told) return '';
  const value = typeof told[1] === 'string' ? told[1] : JSON.stringify(told[1]);
  return value.replace(/\s+/g, ' ').slice(0, 120);
}

function pretty(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

function Result({ result, name }: { result: NonNullable<(Row & { kind: 'tool' })['result']>; name: string }) {
  const [text, setText] = useState(result.content);
  const [failed, setFailed] = useState<string | null>(null);
  const fetchBlob = async () => {
    try {
      setText(await (await request('GET', `/blobs/${result.blob}`)).text());
    } catch (error) {
      setFailed(told(error));
    }
  };
  if (result.blob && !text) {
    return (
      <div class="output">
        <span class="output-title">Output</span>
        <button type="button" class="link" onClick={() => void fetchBlob()}>
          Show {size(result.bytes)}
        </button>
        {failed && <p class="failed">{failed}</p>}
      </div>
    );
  }
  const lines = unified(text);
  return lines ? <Diff lines={lines} /> : <Output title={result.is_error ? 'Error' : 'Output'} text={text} name={name} />;
}

const size = (bytes: number | null) => (bytes === null ? 'it' : bytes < 10_000 ? `${bytes} bytes` : `${Math.round(bytes / 1024).toLocaleString()} KiB`);

function Output({ title, text, name }: { title: string; text: string; name?: string }) {
  const [open, toggle] = useFold(`out:${title}:${name}`, false);
  const cut = !open && text.length > OUTPUT_CHARS_MAX;
  return (
    <div class="output">
      <span class="output-title">{title}</span>
      <pre tabIndex={0} aria-label={title}>
        {cut ? text.slice(0, OUTPUT_CHARS_MAX) : text || '(empty)'}
      </pre>
      {cut && (
        <button type="button" class="link" onClick={toggle}>
          Show all {text.length.toLocaleString()} characters
        </button>
      )}
    </div>
  );
}

const DIFF_LINES_MAX = 200;
const WORDS = { '+': 'added', '-': 'removed', ' ': '', '@': 'meta' };

function Diff({ lines }: { lines: Line[] }) {
  return (
    <div class="output">
      <span class="output-title">Change</span>
      <pre class="diff" tabIndex={0} aria-label="Change">
        {lines.slice(0, DIFF_LINES_MAX).map((line, n) => (
          <span key={n} class={`line ${WORDS[line.mark]}`}>
            {line.mark === '@' ? line.text || ' ' : `${line.mark} ${line.text}`}
          </span>
        ))}
        {lines.length > DIFF_LINES_MAX && `⋯ ${lines.length - DIFF_LINES_MAX} more lines`}
      </pre>
    </div>
  );
}

