// The files that a turn changed, taken from its tool calls.
import type { Part, Turn } from './api-types';
import { changeInParams, parseUnifiedDiff, type DiffLine } from './diff';

export interface FileChange {
  path: string;
  lines: DiffLine[];
}

const PATH_PARAMS = ['path', 'file_path', 'filePath', 'filename', 'file', 'notebook_path'];
const CONTENT_PARAMS = ['content', 'contents', 'file_text', 'text'];
const WRITE_TOOL = /write|create|save/i;
/** Files per turn that are listed. */
const FILES_MAX = 200;

type Call = Extract<Part, { type: 'tool_call' }>;
type Result = Extract<Part, { type: 'tool_result' }>;

const cached = new WeakMap<Turn, FileChange[]>();

/** The changes of a stored turn, which never changes. Changes of one file are joined. */
export function turnChanges(turn: Turn): FileChange[] {
  let changes = cached.get(turn);
  if (!changes) {
    changes = collect(turn.messages.flatMap((message) => message.content));
    cached.set(turn, changes);
  }
  return changes;
}

function collect(parts: Part[]): FileChange[] {
  const results = new Map<string, Result>();
  for (const part of parts) if (part.type === 'tool_result') results.set(part.tool_call_id, part);
  const byPath = new Map<string, DiffLine[]>();
  for (const part of parts) {
    if (part.type !== 'tool_call') continue;
    const result = results.get(part.id);
    // A call that failed or was refused changed nothing.
    if (part.status === 'failed' || result?.is_error) continue;
    for (const { path, lines } of changesOf(part, result)) {
      if (!byPath.has(path) && byPath.size >= FILES_MAX) continue;
      byPath.set(path, [...(byPath.get(path) ?? []), ...lines]);
    }
  }
  return [...byPath].map(([path, lines]) => ({ path, lines }));
}

/** An agent reports a diff as its result; other tools have the change in their parameters. */
function changesOf(call: Call, result: Result | undefined): FileChange[] {
  const path = textParam(call.params, PATH_PARAMS);
  const reported = result ? parseUnifiedDiff(result.content) : null;
  const change = reported ?? changeInParams(call.params);
  if (change) return splitByFile(change, path ?? 'file');
  const content = textParam(call.params, CONTENT_PARAMS);
  if (path && content !== null && WRITE_TOOL.test(call.name)) {
    const lines = content.replace(/\n$/, '').split('\n');
    return [{ path, lines: lines.map((text) => ({ mark: '+', text })) }];
  }
  return [];
}

function textParam(params: unknown, names: string[]): string | null {
  if (typeof params !== 'object' || params === null) return null;
  const fields = params as Record<string, unknown>;
  for (const name of names) if (typeof fields[name] === 'string') return fields[name] as string;
  return null;
}

const FILE_HEADER = /^(?:\+\+\+ (?:b\/)?|\*\*\* (?:Add|Update|Delete) File: )(.+?)(?:\t.*)?$/;
const OTHER_HEADER = /^(?:diff |index |--- |\*\*\*)/;

/** Splits a diff of several files at their headers. */
function splitByFile(lines: DiffLine[], path: string): FileChange[] {
  const changes: FileChange[] = [];
  let current: FileChange = { path, lines: [] };
  let deleted: string | null = null;
  for (const line of lines) {
    const header = line.mark === '@' ? FILE_HEADER.exec(line.text)?.[1] : undefined;
    if (line.mark === '@' && line.text.startsWith('--- '))
      deleted = line.text.slice(4).replace(/^a\//, '').replace(/\t.*$/, '');
    if (header !== undefined) {
      const name = header === '/dev/null' && deleted ? deleted : header;
      current = { path: name, lines: [] };
      changes.push(current);
    } else if (!(line.mark === '@' && OTHER_HEADER.test(line.text))) {
      if (changes.length === 0) changes.push(current);
      current.lines.push(line);
    }
  }
  return changes.filter((change) => change.lines.some(({ mark }) => mark === '+' || mark === '-'));
}
