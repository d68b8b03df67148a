// A tool call, collapsed: its input, the change it makes as a diff, its output.
import { useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { request } from './api';
import { Chip, type Tone } from './chip';
import { Collapsible, ShowAll, useExpanded } from './collapsible';
import { changeInParams, paramsWithoutChange, parseUnifiedDiff, type DiffLine } from './diff';
import type { ToolRow, ToolsRow } from './row-model';
import { humanize } from './session-display';

/** Longer output is truncated until the user expands it. */
const OUTPUT_CHARS_MAX = 4000;
const DIFF_LINES_MAX = 200;

const STATUSES: Record<string, [text: string, tone: Tone]> = {
  pending: ['waiting', 'ask'],
  running: ['running', 'live'],
  completed: ['done', 'good'],
  failed: ['failed', 'bad'],
  unknown: ['outcome unknown', 'ask'],
};

export function ToolCall({ row, isSuspended }: { row: ToolRow; isSuspended: boolean }) {
  const { call, result } = row;
  const status = callStatus(row);
  const shownStatus = isSuspended && status === 'running' ? 'pending' : status;
  const [text, tone] = STATUSES[shownStatus] ?? [humanize(shownStatus), '' as const];
  const change = changeInParams(call?.params);
  const title = (
    <>
      <code>{call?.name ?? 'result'}</code>
      <span class="hint">{call ? summarizeParams(call.params) : result?.tool_call_id}</span>
      <Chip tone={tone}>{text}</Chip>
    </>
  );
  return (
    <Collapsible name={row.key} title={title} class={status === 'failed' ? 'bad' : ''}>
      {() => (
        <>
          {change ? <Diff lines={change} /> : null}
          {call && call.params !== null && (
            <Output
              title="Input"
              text={formatJson(change ? paramsWithoutChange(call.params) : call.params)}
            />
          )}
          {result ? <Result result={result} name={row.key} /> : <p class="hint">No result yet.</p>}
        </>
      )}
    </Collapsible>
  );
}

/** Calls beyond this number are folded until the user expands the block. */
const CALLS_SHOWN = 6;

/** Consecutive tool calls in one block, with a line each. */
export function ToolCalls({ row, isSuspended }: { row: ToolsRow; isSuspended: boolean }) {
  const [open, toggle] = useExpanded(`calls:${row.key}`);
  const isFolded = !open && row.calls.length > CALLS_SHOWN;
  const shown = isFolded ? row.calls.slice(-CALLS_SHOWN) : row.calls;
  const failed = row.calls.filter((call) => callStatus(call) === 'failed').length;
  return (
    <section class="tool-calls" aria-label={`${row.calls.length} tool calls`}>
      <header class="hint">
        {row.calls.length} tool calls{failed > 0 && `, ${failed} failed`}
        {isFolded && <ShowAll count={row.calls.length} of="calls" toggle={toggle} />}
      </header>
      {shown.map((call) => (
        <ToolCall key={call.key} row={call} isSuspended={isSuspended} />
      ))}
    </section>
  );
}

/** A stored turn may contain a call that was still running when a crash ended the turn. */
function callStatus({ call, result, live }: ToolRow): string {
  if (!call) return result?.is_error ? 'failed' : 'completed';
  if (call.status === 'running' && !live) return result ? 'completed' : 'unknown';
  return call.status;
}

const SUMMARY_PARAMS = ['command', 'path', 'file_path', 'query', 'pattern', 'url'];

/** The most informative parameter on one line. */
export function summarizeParams(params: unknown): string {
  if (typeof params !== 'object' || params === null) return '';
  const fields = Object.entries(params as Record<string, unknown>);
  const field = fields.find(([name]) => SUMMARY_PARAMS.includes(name)) ?? fields[0];
  if (!field) return '';
  const text = typeof field[1] === 'string' ? field[1] : JSON.stringify(field[1]);
  return text.replace(/\s+/g, ' ').slice(0, 120);
}

function formatJson(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

/** Large output is a blob of its own and is fetched on demand. */
function Result({ result, name }: { result: NonNullable<ToolRow['result']>; name: string }) {
  const [text, setText] = useState(result.content);
  const [, error, run] = useAction();
  const fetchBlob = async () =>
    setText(await (await request('GET', `/blobs/${result.blob}`)).text());
  if (result.blob && !text) {
    return (
      <div class="output">
        <span class="output-title">Output</span>
        <button type="button" class="link" onClick={() => run(fetchBlob)}>
          Show {formatSize(result.bytes)}
        </button>
        <ErrorMessage text={error} />
      </div>
    );
  }
  const lines = parseUnifiedDiff(text);
  if (lines) return <Diff lines={lines} />;
  return <Output title={result.is_error ? 'Error' : 'Output'} text={text} name={name} />;
}

export function formatSize(bytes: number | null): string {
  if (bytes === null) return 'output';
  return bytes < 10_000 ? `${bytes} bytes` : `${Math.round(bytes / 1024).toLocaleString()} KiB`;
}

function Output({ title, text, name }: { title: string; text: string; name?: string }) {
  const [open, toggle] = useExpanded(`out:${title}:${name}`);
  const isTruncated = !open && text.length > OUTPUT_CHARS_MAX;
  return (
    <div class="output">
      <span class="output-title">{title}</span>
      <pre tabIndex={0} aria-label={title}>
        {isTruncated ? text.slice(0, OUTPUT_CHARS_MAX) : text || '(empty)'}
      </pre>
      {isTruncated && <ShowAll count={text.length} of="characters" toggle={toggle} />}
    </div>
  );
}

const LINE_CLASSES = { '+': 'added', '-': 'removed', ' ': '', '@': 'meta' };

export function Diff({ lines }: { lines: DiffLine[] }) {
  return (
    <div class="output">
      <span class="output-title">Change</span>
      <pre class="diff" tabIndex={0} aria-label="Change">
        {lines.slice(0, DIFF_LINES_MAX).map((line, n) => (
          <span key={n} class={`line ${LINE_CLASSES[line.mark]}`}>
            {line.mark === '@' ? line.text || ' ' : `${line.mark} ${line.text}`}
          </span>
        ))}
        {lines.length > DIFF_LINES_MAX && `⋯ ${lines.length - DIFF_LINES_MAX} more lines`}
      </pre>
    </div>
  );
}
