// A client of ctx acp with the SDK for TypeScript: typescript_client.mjs ACTION DIR [ARGUMENT]. Prints one JSON document.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const { client, methods, ndJsonStream, PROTOCOL_VERSION } = await import(
  pathToFileURL(`${process.env.ACP_SDK}/dist/v1/unstable/acp.js`)
);
const [action, directory, argument] = process.argv.slice(2);

let text = "";
let users = "";
let asked = 0;
let waiting = [];

function waitFor(part) {
  return new Promise((resolve) => {
    waiting.push({ part, resolve });
    look();
  });
}

function look() {
  waiting = waiting.filter(({ part, resolve }) => {
    if (text.includes(part)) resolve();
    return !text.includes(part);
  });
}

const editor = client({ name: "test" })
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") text += update.content.text;
    if (update.sessionUpdate === "user_message_chunk") users += update.content.text;
    look();
  })
  .onRequest(methods.client.session.requestPermission, ({ params: { options } }) => {
    asked += 1;
    const allow = options.find((option) => option.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId: allow.optionId } };
  });

async function run(agent) {
  const initialized = await agent.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  if (initialized.agentInfo.name !== "ctx") throw new Error("not ctx");
  if (action === "list") {
    const listed = await agent.request(methods.agent.session.list, { cwd: directory });
    return { sessions: listed.sessions.map((session) => session.sessionId) };
  }
  if (action === "load") {
    const params = { sessionId: argument, cwd: directory, mcpServers: [] };
    await agent.request(methods.agent.session.load, params);
    await waitFor("two");
    return { text, users };
  }
  const opened =
    action === "fork"
      ? await agent.request(methods.agent.session.fork, { sessionId: argument, cwd: directory })
      : await agent.request(methods.agent.session.new, { cwd: directory, mcpServers: [] });
  const session = opened.sessionId;
  if (action === "new") return { session };
  const words = action === "fork" ? "m2: say forked" : argument;
  const prompt = agent.request(methods.agent.session.prompt, {
    sessionId: session,
    prompt: [{ type: "text", text: words }],
  });
  if (action === "cancel") {
    await waitFor("begun");
    await agent.notify(methods.agent.session.cancel, { sessionId: session });
  }
  if (action === "stream") {
    await waitFor("two");
    console.log(JSON.stringify({ session }));
  }
  const answer = await prompt;
  return { session, stop: answer.stopReason, text, asked };
}

const child = spawn(process.env.CTX, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
console.log(JSON.stringify(await editor.connectWith(stream, run)));
child.stdin.end();
process.exit(0);
