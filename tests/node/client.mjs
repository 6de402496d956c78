// One conversation of the official TypeScript client with a server, scripted: JSON on stdin, a transcript on stdout.
//
// In:  { target: { url } | { command, args, cwd }, answers: { method: [result, ...] }, calls: [{ method, params }],
//        timeout: milliseconds for each call }
// Out: { protocolVersion, serverInfo, capabilities, instructions, asks: [{ method, params }],
//        notifications: [{ call, method, params }], results: [{ result } | { error: { name, code, message, data } }] }
//
// A method named in `answers` is a capability that the client declares. Its answers are given in order, the last of
// them again and again. A call may have `logLevel` (set in its _meta) and gets its progress as notifications.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import process from 'node:process';

// The packages may lie elsewhere than beside this script.
const modules = process.env.MRTR_TEST_NODE_MODULES;
const require = createRequire(modules ? join(modules, 'client.mjs') : import.meta.url);
const { Client, LOG_LEVEL_META_KEY, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

const CAPABILITY = {
  'elicitation/create': { elicitation: { form: {}, url: {} } },
  'sampling/createMessage': { sampling: {} },
  'roots/list': { roots: {} }
};

const VERBS = {
  'tools/list': (client, params, options) => client.listTools(params, options),
  'tools/call': (client, params, options) => client.callTool(params, options),
  'prompts/list': (client, params, options) => client.listPrompts(params, options),
  'prompts/get': (client, params, options) => client.getPrompt(params, options),
  'resources/list': (client, params, options) => client.listResources(params, options),
  'resources/templates/list': (client, params, options) => client.listResourceTemplates(params, options),
  'resources/read': (client, params, options) => client.readResource(params, options),
  'completion/complete': (client, params, options) => client.complete(params, options)
};

const read = async () => {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString('utf8'));
};

const failure = error => ({
  error: { name: error?.constructor?.name, code: error?.code, message: String(error?.message ?? error), data: error?.data }
});

const script = await read();
const answers = script.answers ?? {};
const asks = [];
const notifications = [];
let running = null;
const noted = (method, params) => notifications.push({ call: running, method, params });

const client = new Client(
  { name: 'typescript-peer', version: '1.0.0' },
  {
    capabilities: Object.assign({}, ...Object.keys(answers).map(method => CAPABILITY[method])),
    versionNegotiation: { mode: 'auto' }
  }
);

for (const [method, given] of Object.entries(answers)) {
  const remaining = [...given];
  client.setRequestHandler(method, async request => {
    asks.push({ method, params: request.params ?? {} });
    return remaining.length > 1 ? remaining.shift() : remaining[0];
  });
}
client.setNotificationHandler('notifications/message', ({ method, params }) => noted(method, params));

const { url, command, args, cwd } = script.target;
const transport = url
  ? new StreamableHTTPClientTransport(new URL(url))
  : new StdioClientTransport({ command, args, cwd, env: { ...process.env }, stderr: 'inherit' });

const transcript = { asks, notifications, results: [] };
try {
  await client.connect(transport);
  transcript.protocolVersion = client.getNegotiatedProtocolVersion();
  transcript.serverInfo = client.getServerVersion();
  transcript.capabilities = client.getServerCapabilities();
  transcript.instructions = client.getInstructions();
  for (const [index, { method, params, logLevel }] of script.calls.entries()) {
    running = index;
    const options = {
      timeout: script.timeout ?? 15000,
      onprogress: progress => {
        if (!progress.message?.startsWith('Fulfilling input required')) noted('notifications/progress', progress);
      }
    };
    const sent = logLevel ? { ...params, _meta: { ...params?._meta, [LOG_LEVEL_META_KEY]: logLevel } } : params;
    try {
      transcript.results.push({ result: await VERBS[method](client, sent, options) });
    } catch (error) {
      transcript.results.push(failure(error));
    }
  }
} catch (error) {
  Object.assign(transcript, failure(error));
} finally {
  await client.close().catch(() => {});
}
process.stdout.write(JSON.stringify(transcript), () => process.exit(0));
