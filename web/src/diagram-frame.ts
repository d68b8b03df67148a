// The script of the frame that draws diagrams. It runs in a sandbox: see crates/ctx/src/http/web_page.rs.
// The page sends the source of a diagram and gets its drawing as SVG.
import mermaid from 'mermaid';

interface Request {
  id: number;
  source: string;
  dark: boolean;
}

addEventListener('message', async (event: MessageEvent<Request>) => {
  if (event.source !== parent) return;
  const { id, source, dark } = event.data;
  try {
    mermaid.initialize({
      startOnLoad: false,
      securityLevel: 'strict',
      theme: dark ? 'dark' : 'default',
      // The other layouts are left out: see build.mjs.
      layout: 'dagre',
      fontFamily: 'system-ui, sans-serif',
      // Labels as SVG text: an image cannot contain HTML in every browser.
      htmlLabels: false,
      flowchart: { htmlLabels: false },
      suppressErrorRendering: true,
      themeCSS: '.edgeLabel rect, .edgeLabel .background { opacity: 1 !important; }',
    });
    const { svg } = await mermaid.render(`diagram-${id}`, source);
    reply({ id, svg });
  } catch (error) {
    reply({ id, error: error instanceof Error ? error.message : String(error) });
  }
});

// The frame has no origin, and what it sends is a drawing of the text that the page gave it.
const reply = (message: object) => parent.postMessage(message, '*');
reply({ ready: true });
