import{B as o}from"./chunk-CI62T4H2.js";var p=({tone:e,children:n})=>o("span",{class:`chip ${e??""}`,children:n});export{p as a};
