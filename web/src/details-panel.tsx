// The details panel of a session: what it is called, who it belongs to and which policy created it.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { get } from './api';
import type { Alias, Entity, Session } from './api-types';
import { hrefTo } from './route';
import { humanize } from './session-display';

const ALIASES_MAX = 50;

export function DetailsPanel({ session }: { session: Session }) {
  const { entity: entityId, policy, merged_into: mergedInto } = session.routing;
  const [entity, setEntity] = useState<Entity | null>(null);
  const [aliases, setAliases] = useState<Alias[]>([]);
  const [, error, run] = useAction();
  useEffect(() => {
    run(async () => {
      const path = `/aliases?session=${encodeURIComponent(session.id)}&limit=${ALIASES_MAX}`;
      const [page, found] = await Promise.all([
        get<{ aliases: Alias[] }>(path),
        entityId ? get<Entity>(`/entities/${entityId}`) : null,
      ]);
      setAliases(page.aliases);
      setEntity(found);
    });
  }, [session.id, session.label, entityId, mergedInto]);
  return (
    <>
      <h2>Details</h2>
      <dl class="details">
        <Detail name="Label">
          <span class="mono">{session.label}</span>
        </Detail>
        {aliases.length > 0 && (
          <Detail name="Aliases">
            <ul>
              {aliases.map(({ alias, reason }) => (
                <li key={alias}>
                  <span class="mono">{alias}</span> <span class="hint">{humanize(reason)}</span>
                </li>
              ))}
            </ul>
          </Detail>
        )}
        <Detail name="Created by">
          {policy ? (
            <>
              policy <span class="mono">{policy}</span>
            </>
          ) : (
            'no policy: not by a message from a channel'
          )}
        </Detail>
        {entityId && (
          <Detail name="Belongs to">
            <a href={hrefTo.entity(entityId)}>{entity?.name ?? entityId}</a>
          </Detail>
        )}
        {mergedInto && (
          <Detail name="Merged into">
            <a href={hrefTo.session(mergedInto)}>{mergedInto}</a>
            <p class="hint">
              That session receives the messages from channels. This one keeps its history.
            </p>
          </Detail>
        )}
        {session.persona && <Detail name="Persona">{session.persona}</Detail>}
        <Detail name="Channels">
          <a href={hrefTo.deliveriesWith('all', session.id)}>Deliveries of this session</a>
        </Detail>
      </dl>
      <ErrorMessage text={error} />
    </>
  );
}

const Detail = ({ name, children }: { name: string; children: ComponentChildren }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);
