// The public conformance suite against ctx, through the adapter. `main.mjs` selects its cases.
import { afterAll, beforeAll } from 'vitest';
import { runConformanceTests } from '@durable-streams/server-conformance-tests';
import { startAdapter } from './adapter.mjs';
import { CtxServer } from './ctx-server.mjs';

const suite = { baseUrl: '' };
let ctx, adapter;
beforeAll(async () => {
  ctx = await CtxServer.start('[inbox]\ncap = 100000\n');
  adapter = await startAdapter(ctx);
  suite.baseUrl = adapter.url;
});
afterAll(async () => {
  await adapter?.end();
  await ctx?.end();
});
runConformanceTests(suite);
