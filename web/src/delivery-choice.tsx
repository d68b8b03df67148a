// What happens to a message that is sent while the agent works or waits, in words.
import type { QueueMode, Session } from './api-types';
import { providers } from './provider-store';

interface Choice {
  mode: QueueMode | '';
  label: string;
  explanation: string;
  /** Why it cannot be chosen; null if it can. */
  unavailable: string | null;
}

/** The choices for the current state of the session; empty if a message runs at once. */
export function deliveryChoices(session: Session | null): Choice[] {
  if (session?.state === 'running') {
    const provider = providers.value.all.find((one) => one.id === session.run?.provider_id);
    const cannotSteer = provider && !provider.can.steer;
    return [
      {
        mode: 'interrupt',
        label: 'Stop and send',
        explanation: 'Stops the current answer. What it wrote is kept. Your message runs next.',
        unavailable: null,
      },
      {
        mode: 'queue',
        label: 'Add to queue',
        explanation: 'Your message runs when the current answer is complete.',
        unavailable: null,
      },
      {
        mode: 'steer-backlog',
        label: 'Steer',
        explanation: 'The agent reads your message while it works.',
        unavailable: cannotSteer ? `${provider.id} cannot be steered` : null,
      },
    ];
  }
  if (session?.state === 'suspended') {
    return [
      {
        mode: '',
        label: 'Send after the reply',
        explanation: 'Your message waits until the request above is answered.',
        unavailable: null,
      },
      {
        mode: 'interrupt',
        label: 'Stop and send',
        explanation: 'Ends the request above without an answer. Your message runs next.',
        unavailable: null,
      },
    ];
  }
  return [];
}

/** The choice that the user made, or the default of the session. */
export function chosenMode(session: Session | null, wanted: QueueMode | ''): QueueMode | '' {
  const choices = deliveryChoices(session).filter((choice) => !choice.unavailable);
  const preferred: (QueueMode | '')[] = [
    wanted,
    session?.track_tasks ? 'steer-backlog' : 'interrupt',
    'queue',
  ];
  if (session?.state === 'suspended') preferred.splice(1, 2, '');
  const found = preferred.find(
    (mode, n) => (n > 0 || wanted) && choices.some((choice) => choice.mode === mode),
  );
  return found ?? '';
}

interface Props {
  session: Session | null;
  value: QueueMode | '';
  onChange(mode: QueueMode | ''): void;
}

export function DeliveryChoice({ session, value, onChange }: Props) {
  const choices = deliveryChoices(session);
  if (choices.length === 0) return null;
  const current = choices.find((choice) => choice.mode === value);
  return (
    <fieldset class="delivery-choice">
      <legend class="visually-hidden">How to send while the agent is busy</legend>
      {choices.map((choice) => (
        <label
          key={choice.mode}
          class={choice.mode === value ? 'chosen' : ''}
          title={choice.unavailable ?? choice.explanation}
        >
          <input
            type="radio"
            name="delivery"
            checked={choice.mode === value}
            disabled={choice.unavailable !== null}
            onChange={() => onChange(choice.mode)}
          />
          {choice.label}
        </label>
      ))}
      <span class="hint delivery-explanation">{current?.explanation}</span>
    </fieldset>
  );
}
