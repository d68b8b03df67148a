// A screenshot of a terminal: text with escape sequences in, a webp out.
//
//   tmux capture-pane -ep | node tests/screenshots/terminal.mjs OUTPUT.webp COLUMNS ROWS
//
// Needs playwright-core (`npm ci` in web/) and Chromium.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [output, columns, rows] = process.argv.slice(2);
const require = createRequire(new URL('../../web/package.json', import.meta.url));
const { chromium } = require('playwright-core');

const COLORS = ['#21252b', '#e06c75', '#98c379', '#e5c07b', '#61afef', '#c678dd', '#56b6c2', '#d7dae0',
  '#7f848e', '#ff7b86', '#b1e18b', '#efd58a', '#7dc4ff', '#de8cf5', '#70d0dc', '#ffffff'];
const FOREGROUND = '#d7dae0';
const BACKGROUND = '#1b1e24';
const escape = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;');

/** Applies the parameters of one SGR sequence. */
function apply(style, parameters) {
  const codes = parameters === '' ? [0] : parameters.split(/[;:]/).map(Number);
  for (let n = 0; n < codes.length; n++) {
    const code = codes[n];
    if (code === 0) Object.keys(style).forEach((key) => delete style[key]);
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 9) style.struck = true;
    else if (code === 22) delete style.bold, delete style.dim;
    else if (code === 23) delete style.italic;
    else if (code === 24) delete style.underline;
    else if (code === 27) delete style.inverse;
    else if (code === 29) delete style.struck;
    else if (code >= 30 && code <= 37) style.color = COLORS[code - 30];
    else if (code >= 90 && code <= 97) style.color = COLORS[code - 82];
    else if (code === 38 && codes[n + 1] === 5) { style.color = COLORS[codes[n + 2]] ?? FOREGROUND; n += 2; }
    else if (code === 39) delete style.color;
    else if (code === 48 && codes[n + 1] === 5) n += 2;
  }
}

function css(style) {
  let [color, background] = [style.color ?? FOREGROUND, null];
  if (style.inverse) [color, background] = [BACKGROUND, color];
  const rules = [`color:${color}`];
  if (background) rules.push(`background:${background}`);
  if (style.bold) rules.push('font-weight:700');
  if (style.dim) rules.push('opacity:.6');
  if (style.italic) rules.push('font-style:italic');
  const lines = [style.underline && 'underline', style.struck && 'line-through'].filter(Boolean);
  if (lines.length) rules.push(`text-decoration:${lines.join(' ')}`);
  return rules.join(';');
}

const style = {};
const lines = readFileSync(0, 'utf8').replace(/\n$/, '').split('\n').slice(0, Number(rows)).map((line) => {
  let html = '';
  for (const part of line.split(/(\x1b\[[0-9;:]*m)/)) {
    const sequence = /^\x1b\[([0-9;:]*)m$/.exec(part);
    if (sequence) apply(style, sequence[1]);
    else if (part) html += `<span style="${css(style)}">${escape(part)}</span>`;
  }
  return html;
});
while (lines.length < Number(rows)) lines.push('');

const font = '"DejaVu Sans Mono", "Liberation Mono", monospace';
const html = `<body style="margin:0;background:${BACKGROUND}"><pre id="t" style="margin:0;padding:10px 12px;`
  + `display:inline-block;width:${columns}ch;font:14px/18px ${font};color:${FOREGROUND}">${lines.join('\n')}</pre>`;
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const page = await browser.newPage({ deviceScaleFactor: 1.5 });
await page.setContent(html);
const box = await page.locator('#t').boundingBox();
await page.setViewportSize({ width: Math.ceil(box.width), height: Math.ceil(box.height) });
const session = await page.context().newCDPSession(page);
const shot = await session.send('Page.captureScreenshot', { format: 'webp', quality: 90 });
writeFileSync(output, Buffer.from(shot.data, 'base64'));
await browser.close();
