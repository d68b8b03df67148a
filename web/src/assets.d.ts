declare module '*.css';
declare module '*.svg' {
  const dataUrl: string;
  export default dataUrl;
}
