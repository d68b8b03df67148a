import{A as o}from"./chunk-VY66WR57.js";var p=({tone:e,children:n})=>o("span",{class:`chip ${e??""}`,children:n});export{p as a};
