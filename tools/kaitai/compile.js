// Compile a .ksy: node compile.js FILE.ksy LANGUAGE FOLDER; both packages are found by NODE_PATH.
"use strict";

const fs = require("fs");
const path = require("path");
const yaml = require("yaml");
const compiler = require("kaitai-struct-compiler");

const [file, language, folder] = process.argv.slice(2);
compiler
  .compile(language, yaml.parse(fs.readFileSync(file, "utf8")), null, false)
  .then((files) => {
    for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(folder, name), text);
  })
  .catch((error) => {
    console.error(`${file}: ${error}`);
    process.exit(1);
  });
