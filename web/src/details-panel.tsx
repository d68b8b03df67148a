// The details panel of a session: what it is called, who it belongs to and which policy created it.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import { get } from './api';
import type { Alias, Entity, Session } from './api-types';
import { providers } from './provider-store';
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
          <p class="hint">Names this session in commands and in the API.</p>
        </Detail>
        {aliases.length > 0 && (
          <Detail name="Earlier and other labels">
            <ul>
              {aliases.map(({ alias, reason }) => (
                <li key={alias}>
                  <span class="mono">{alias}</span> <span class="hint">{humanize(reason)}</span>
                </li>
              ))}
            </ul>
          </Detail>
        )}
        <Detail name="Created">
          {policy ? (
            <>
              by a message from a channel, as the policy <span class="mono">{policy}</span> says
            </>
          ) : (
            'here or by a program, not by a message from a channel'
          )}
        </Detail>
        <Detail name="Answers come from">
          {session.provider_id ?? providers.value.defaultId ?? 'the default provider'}
          {session.model && <span class="hint"> {session.model}</span>}
        </Detail>
        {session.working_dir && (
          <Detail name="Working directory">
            <span class="mono">{session.working_dir}</span>
          </Detail>
        )}
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
