// A task with recorded work, on a server whose default provider is the demo agent.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** A task with a changed file, a failed command, a question with its answer, and a permission. */
export async function recordWork(server) {
  const message = 'Add a retry with a tool';
  const made = await server.createSession({ track_tasks: true, title: 'the work', message });
  const stage = (...args) => server.runCtx('stage', '--session', made.label, ...args);
  const file = join(server.dir, 'fetch.rs');
  await writeFile(file, 'fn fetch() {\n    get()\n}\n');
  stage('observe', 'file-read', 'fetch.rs');
  await writeFile(file, `fn fetch() {\n    retry(get)\n}\n${'// more\n'.repeat(1000)}`);
  stage('observe', 'file-write', 'fetch.rs');
  stage('observe', 'command', '--exit', '1', '--', 'cargo', 'test');
  stage('more', 'make the number a setting');
  stage('ask', 'Which number is the default?');
  await server.send(made.id, 'Three is the default');
  await server.send(made.id, 'permission');
  const { suspensions } = await server.untilState(made.id, 'suspended');
  await server.api('POST', `/sessions/${made.id}/resume`, {
    suspension_id: suspensions[0].id,
    choice: suspensions[0].options[0].id,
  });
  await server.untilState(made.id, 'idle');
  const { tasks } = await server.api('GET', `/sessions/${made.id}/tasks`);
  return { task: tasks.at(-1), session: made };
}
