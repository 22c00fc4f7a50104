// Common Access Tokens of another author: cat.js make SECRET CLAIMS, or cat.js read SECRET TOKEN URL
const { CAT } = require(process.env.MODULES + "/@eyevinn/cat");
const [verb, secret, ...rest] = process.argv.slice(2);
const cat = new CAT({ keys: { k1: Buffer.from(secret) }, expectCwtTag: true });
(async () => {
  if (verb === "make") {
    const options = { type: "mac", alg: "HS256", kid: "k1" };
    console.log(await cat.generateFromJson(JSON.parse(rest[0]), options));
  } else {
    const options = { issuer: "me", url: new URL(rest[1]), ip: "127.0.0.1" };
    const found = await cat.validate(rest[0], "mac", options);
    console.log(found.error ? found.error.message : JSON.stringify(found.cat.claims));
  }
})();
