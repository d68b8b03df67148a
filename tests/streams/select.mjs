// Skips the cases of the conformance suite that do not apply to ctx.
import { beforeEach } from 'vitest';
import { reasonAgainst } from './cases.mjs';

beforeEach(({ task, skip }) => {
  const reason = reasonAgainst(task.suite.name, task.name);
  if (reason === undefined) throw new Error(`the group ${task.suite.name} is not in cases.mjs`);
  if (reason !== null) skip(reason);
});
