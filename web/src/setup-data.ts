// The setup of the server: providers of `ctx.toml`, what was found on the machine, settings.
import { get, patch, post, remove, request } from './api';

export interface ProviderSetup {
  name: string;
  kind: string;
  base_url: string | null;
  api_key_env: string | null;
  /** Null if the provider needs no key. */
  key_is_set: boolean | null;
  model: string | null;
  context_window: number | null;
  command: string[];
}

export interface ConfiguredProvider extends ProviderSetup {
  available: boolean;
  reason: string | null;
}

export interface FoundProvider extends ProviderSetup {
  /** Why it was found. */
  by: string;
}

export interface Setup {
  file: { path: string; exists: boolean };
  default: string;
  providers: ConfiguredProvider[];
  found: FoundProvider[];
  settings: Record<string, string>;
  roots: string[];
}

/** A provider as it is written; a key is never sent. */
export interface ProviderDraft {
  kind: string;
  base_url?: string;
  api_key_env?: string;
  model?: string;
  context_window?: number;
  command?: string[];
  default?: boolean;
}

export interface Changed {
  path: string;
  backup: string | null;
  restart: boolean;
}

export interface TestResult {
  ok: boolean;
  answer?: string;
  first_word_ms?: number | null;
  whole_ms?: number | null;
  message?: string;
  hint?: string | null;
}

export const fetchSetup = () => get<Setup>('/setup');

export const testProvider = (provider: string, draft: ProviderDraft | null) =>
  post<TestResult>('/setup/test', { provider, ...(draft && { draft }) });

/** The models of a server on this machine; empty if it does not respond. */
export async function fetchModels(baseUrl: string): Promise<string[]> {
  const path = `/setup/models?base_url=${encodeURIComponent(baseUrl)}`;
  return (await get<{ models: string[] | null }>(path)).models ?? [];
}

export const writeProvider = async (name: string, draft: ProviderDraft): Promise<Changed> => {
  const path = `/setup/providers/${encodeURIComponent(name)}`;
  return (await request('PUT', path, { body: draft })).json();
};

export const removeProvider = async (name: string): Promise<Changed> =>
  (await remove(`/setup/providers/${encodeURIComponent(name)}`)).json();

export const writeSettings = (settings: Record<string, string | null>) =>
  patch<Changed>('/setup/settings', settings);

/** What a provider that was found is written as. */
export function draftOf(found: ProviderSetup): ProviderDraft {
  return {
    kind: found.kind,
    ...(found.base_url && { base_url: found.base_url }),
    ...(found.api_key_env && { api_key_env: found.api_key_env }),
    ...(found.model && { model: found.model }),
    ...(found.context_window && { context_window: found.context_window }),
    ...(found.command.length > 0 && { command: found.command }),
  };
}

/** The words of a command line. Quotes group words; a backslash takes the next character as it is. */
export function splitCommand(line: string): string[] {
  const words: string[] = [];
  let word: string | null = null;
  let quote: string | null = null;
  for (let n = 0; n < line.length; n++) {
    const char = line[n]!;
    if (char === '\\' && quote !== "'" && n + 1 < line.length) word = (word ?? '') + line[++n];
    else if (quote) {
      if (char === quote) quote = null;
      else word += char;
    } else if (char === '"' || char === "'") {
      quote = char;
      word ??= '';
    } else if (/\s/.test(char)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? '') + char;
  }
  if (word !== null) words.push(word);
  return words;
}

export const joinCommand = (words: string[]) =>
  words
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `"${word.replace(/(["\\])/g, '\\$1')}"`))
    .join(' ');
