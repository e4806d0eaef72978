import { defineConfig } from 'vite';

// `npm run dev` serves the sources and passes requests of the API on to a running server. There is no session to sign
// in to then, so the key of MNEME_KEY goes with each request.
const server = process.env.MNEME_URL ?? 'http://127.0.0.1:7700';
const headers: Record<string, string> = process.env.MNEME_KEY
  ? { Authorization: `Bearer ${process.env.MNEME_KEY}` }
  : {};

export default defineConfig({
  base: '/console/',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  server: { proxy: { '/api': { target: server, headers } } },
  build: {
    outDir: 'dist',
    target: ['chrome125', 'firefox128', 'safari17.5'],
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
