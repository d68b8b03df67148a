// ctx hooks: begin
// Records prompts, tool uses and ends in the open task of ctx. Written by `ctx hook install opencode`;
// `ctx hook uninstall opencode` removes it.
import { spawnSync } from "node:child_process";

const PROGRAM = {{PROGRAM}};
const TEXT_MAX = 1000000;

function cut(text) {
  return typeof text === "string" ? text.slice(0, TEXT_MAX) : text;
}

export const CtxHooks = async ({ directory }) => {
  // ctx observes the agents that it runs.
  if (process.env.CTX_RUN) return {};
  const children = new Set();
  const answers = new Map();
  // Synchronous, so that reports arrive in order and before the process ends.
  const report = (event, session, fields) => {
    try {
      const input = JSON.stringify({ session_id: session, cwd: directory, ...fields });
      spawnSync(PROGRAM, ["hook", "record", "opencode", event], {
        input,
        cwd: directory,
        stdio: ["pipe", "ignore", "ignore"],
        timeout: 2000,
      });
    } catch {}
  };
  return {
    "chat.message": async (input, output) => {
      if (children.has(input.sessionID)) return;
      const texts = (output.parts ?? []).filter((part) => part.type === "text" && !part.synthetic);
      const prompt = texts.map((part) => part.text).join("\n");
      if (prompt.trim()) report("prompt", input.sessionID, { prompt: cut(prompt) });
    },
    "tool.execute.after": async (input, output) => {
      report("tool", input.sessionID, {
        tool: input.tool,
        input: input.args,
        output: cut(output?.output),
        exit: output?.metadata?.exit,
      });
    },
    "experimental.text.complete": async (input, output) => {
      answers.set(input.sessionID, output.text);
    },
    event: async ({ event }) => {
      const properties = event.properties ?? {};
      const session = properties.sessionID ?? properties.info?.id;
      if (event.type === "session.created" && properties.info?.parentID) children.add(session);
      if (children.has(session)) return;
      if (event.type === "session.idle") {
        report("turn_end", session, { text: cut(answers.get(session)) });
        answers.delete(session);
      }
      if (event.type === "session.deleted") report("closed", session, { reason: "deleted" });
    },
  };
};
// ctx hooks: end
