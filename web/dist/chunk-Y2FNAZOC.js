import{A as o}from"./chunk-DK5PSXUR.js";var p=({tone:e,children:n})=>o("span",{class:`chip ${e??""}`,children:n});export{p as a};
