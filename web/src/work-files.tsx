// The files of a task with the change of each between its first and its last version.
import { useEffect, useState } from 'preact/hooks';
import { ErrorMessage, useAction } from './action';
import type { Task } from './api-types';
import { Chip, type Tone } from './chip';
import { Collapsible } from './collapsible';
import { plural } from './session-display';
import { StoredText, VersionDiff } from './work-content';
import { fetchFiles, type WorkFile } from './work-data';

export function WorkFiles({ task }: { task: Task }) {
  const [found, setFound] = useState<{ files: WorkFile[]; more: number } | null>(null);
  const [, error, run] = useAction();
  useEffect(() => run(async () => setFound(await fetchFiles(task.id))), [task.id, task.steps]);
  const changed = found?.files.filter((file) => file.written) ?? [];
  const read = found?.files.filter((file) => !file.written) ?? [];
  return (
    <section aria-label="Files">
      <h2>
        {found ? `${plural(changed.length, 'file')} changed, ${read.length} only read` : 'Files'}
      </h2>
      <ErrorMessage text={error} />
      {found?.files.length === 0 && <p class="empty">No file was read or written.</p>}
      <ul class="work-files">
        {[...changed, ...read].map((file) => (
          <li key={file.path}>
            <File file={file} />
          </li>
        ))}
      </ul>
      {found !== null && found.more > 0 && (
        <p class="hint">{plural(found.more, 'more file')} not listed.</p>
      )}
    </section>
  );
}

function File({ file }: { file: WorkFile }) {
  const { path, before, after } = file;
  const [text, tone]: [string, Tone] = !file.written
    ? ['read', '']
    : file.deleted
      ? ['deleted', 'bad']
      : before === null
        ? ['written', 'good']
        : ['changed', 'live'];
  const title = (
    <>
      <code>{path}</code>
      <Chip tone={tone}>{text}</Chip>
    </>
  );
  return (
    <Collapsible name={`work-file:${path}`} title={title}>
      {() =>
        file.written ? (
          <VersionDiff before={before} after={after} />
        ) : before !== null ? (
          <StoredText content={before} title="Content" />
        ) : (
          <p class="hint">The content was not recorded.</p>
        )
      }
    </Collapsible>
  );
}
