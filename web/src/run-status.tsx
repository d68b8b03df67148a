// One line above the composer while the agent works: phase, elapsed time, tokens so far.
import { useEffect, useState } from 'preact/hooks';
import type { Message, Session } from './api-types';
import type { SessionStore } from './session-store';

/** Characters per token of usual text; only an estimate. */
const TOKEN_CHARS = 4;

const PHASES: Record<string, string> = {
  processing: 'Preparing',
  streaming: 'Answering',
  compacting: 'Compacting the context',
  completing: 'Saving',
};

export function RunStatus({ store, session }: { store: SessionStore; session: Session }) {
  const { run } = session;
  const isRunning = session.state === 'running' && run !== null;
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isRunning) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isRunning, run?.id]);
  if (!isRunning) return null;
  const seconds = Math.max(0, Math.floor((now - Date.parse(run.started_at)) / 1000));
  const tokens = estimatedTokens(store.openMessages.value);
  return (
    <p class="run-status hint">
      <span class="dot live" />
      <span>{PHASES[run.phase] ?? run.phase}</span>
      <span>{elapsed(seconds)}</span>
      {tokens > 0 && <span>about {tokens.toLocaleString()} tokens</span>}
      <span class="not-narrow">{run.model ?? run.provider_id}</span>
    </p>
  );
}

function elapsed(seconds: number): string {
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** The tokens that the agent has written in the open turn. */
function estimatedTokens(messages: Message[]): number {
  let chars = 0;
  for (const message of messages) {
    if (message.role !== 'assistant') continue;
    for (const part of message.content) {
      if (part.type === 'text' || part.type === 'thought') chars += part.text.length;
    }
  }
  return Math.round(chars / TOKEN_CHARS);
}
