// Completions of the message field: slash commands, and files of the working directory after `@`.
import { useEffect, useState } from 'preact/hooks';
import { get } from './api';
import type { Command } from './api-types';

/** Pause after the last keystroke before files are requested. */
const FILES_DELAY_MS = 120;
const ITEMS_MAX = 12;

/** The commands that ctx itself answers. Other commands are the agent's. */
const CTX_COMMANDS: Command[] = [
  { name: 'help', description: 'List the commands of ctx' },
  { name: 'done', description: 'Seal the open task as complete' },
  { name: 'abandon', description: 'Seal the open task as abandoned' },
  { name: 'compact', description: 'Shorten the context' },
];

export interface Completion {
  kind: 'command' | 'file';
  label: string;
  description: string;
}

/** The commands that start with the text. */
function matchingCommands(text: string, agentCommands: Command[]): Completion[] {
  if (text[0] !== '/') return [];
  const own = CTX_COMMANDS.map((command) => command.name);
  return CTX_COMMANDS.concat(agentCommands.filter(({ name }) => name && !own.includes(name)))
    .filter(({ name }) => `/${name}`.startsWith(text) && `/${name}` !== text)
    .map(({ name, description }) => ({
      kind: 'command',
      label: `/${name}`,
      description: description ?? '',
    }));
}

/** The part of a path that is being typed after `@`; null if none is. */
export function mentionAt(text: string, cursor: number): string | null {
  return /(?:^|\s)@([^\s@]*)$/.exec(text.slice(0, cursor))?.[1] ?? null;
}

interface Input {
  text: string;
  cursor: number;
  commands: Command[] | null;
  workingDir: string | null;
}

/** The completions for a text. Commands are offered only if `commands` is not null. */
export function useCompletions({ text, cursor, commands, workingDir }: Input): Completion[] {
  const [files, setFiles] = useState<string[]>([]);
  const mention = workingDir ? mentionAt(text, cursor) : null;
  useEffect(() => {
    setFiles([]);
    if (mention === null || !workingDir) return;
    const abort = new AbortController();
    const query = new URLSearchParams({ working_dir: workingDir, q: mention });
    const timer = setTimeout(() => {
      get<{ files: string[] }>(`/files?${query}`, abort.signal).then(
        (found) => setFiles(found.files),
        () => undefined,
      );
    }, FILES_DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [mention, workingDir]);
  if (mention !== null) {
    return files
      .slice(0, ITEMS_MAX)
      .map((path) => ({ kind: 'file', label: path, description: '' }));
  }
  return commands ? matchingCommands(text, commands) : [];
}

interface ListProps {
  items: Completion[];
  /** Index of the item that Enter and Tab choose. */
  chosen: number;
  onChoose(item: Completion): void;
}

export const COMPLETIONS_ID = 'completions';

export function CompletionList({ items, chosen, onChoose }: ListProps) {
  if (items.length === 0) return null;
  const label = items[0]!.kind === 'file' ? 'Files' : 'Commands';
  return (
    <ul class="completions" id={COMPLETIONS_ID} role="listbox" aria-label={label}>
      {items.map((item, n) => (
        <li
          key={item.label}
          id={`completion-${n}`}
          role="option"
          aria-selected={n === chosen}
          ref={(element) => {
            if (n === chosen) element?.scrollIntoView({ block: 'nearest' });
          }}
          // The field keeps the focus.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onChoose(item)}
        >
          <code>{item.label}</code> <span class="hint">{item.description}</span>
          {n === chosen && <kbd>Tab</kbd>}
        </li>
      ))}
    </ul>
  );
}
