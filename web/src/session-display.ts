// Names and states of a session as text.
import type { Session } from './api-types';
import type { Tone } from './chip';

/** An API name in words: `pending_complete` becomes "pending complete". */
export const humanize = (name: string) => name.replaceAll('_', ' ').replaceAll('-', ' ');

/** How a task ended, by the type of its commit. */
export const COMMIT_TYPES: Record<string, [text: string, tone: Tone]> = {
  normal: ['done', 'good'],
  abandoned: ['abandoned', 'bad'],
  stale_auto_compact: ['sealed after inactivity', 'ask'],
  interrupted_by_new_task: ['replaced by a new task', 'ask'],
};

/** "1 turn", "2 turns". */
export const plural = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** The label, unless ctx generated it or it equals the title. */
export function customLabel(session: Session): string | null {
  const isGenerated = /^(session|fork)-[0-9A-Z]{26}$/.test(session.label);
  return isGenerated || session.label === session.title ? null : session.label;
}

export const needsUser = (session: Session) =>
  session.suspensions.length > 0 ||
  session.pending_prompt !== null ||
  session.task?.state.name === 'awaiting_user';

/** The state to show beside the name; null for an idle, active session. */
export function sessionState(session: Session): { tone: Tone; text: string } | null {
  if (session.status === 'error') return { tone: 'bad', text: 'damaged' };
  if (session.state === 'running') {
    return { tone: 'live', text: session.run?.phase === 'compacting' ? 'compacting' : 'running' };
  }
  if (session.state === 'suspended' || needsUser(session))
    return { tone: 'ask', text: 'needs you' };
  if (session.status === 'suspended') return { tone: 'ask', text: 'interrupted by a restart' };
  if (session.status === 'archived') return { tone: '', text: 'archived' };
  return null;
}
