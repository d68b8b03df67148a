// The name of a session in a place with little room: the title is cut off, the number of a fork not.
import type { Session } from './api-types';
import { forkNumber, ownName } from './session-names';

export function SessionName({ session }: { session: Session }) {
  const number = forkNumber(session);
  return (
    <>
      <span class="clipped">{ownName(session)}</span>
      {number && <span class="fork-number">{` (fork ${number})`}</span>}
    </>
  );
}
