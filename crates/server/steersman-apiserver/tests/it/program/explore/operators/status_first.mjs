// Publishes the page of each Site in a ConfigMap, with nothing but Node. The bug: the status says so before it is so.
import fs from "node:fs";
import https from "node:https";
import readline from "node:readline";

const BUG = process.argv[2] === "bug";
const SITES = "/apis/example.com/v1/namespaces/default/sites";
const CONFIG_MAPS = "/api/v1/namespaces/default/configmaps";

const kubeconfig = fs.readFileSync(process.env.KUBECONFIG, "utf8");
const field = (name) => kubeconfig.match(new RegExp(`${name}: (\\S+)`))[1];
const server = new URL(field("server"));
const ca = Buffer.from(field("certificate-authority-data"), "base64");
const token = field("token");
const agent = new https.Agent({ ca, keepAlive: true });
const pause = (time) => new Promise((done) => setTimeout(done, time));

function open(method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const options = { method, host: server.hostname, port: server.port, path, headers, agent };
    const request = https.request(options, resolve);
    request.on("error", reject);
    request.end(body && JSON.stringify(body));
  });
}

async function call(method, path, body) {
  const answer = await open(method, path, body);
  let text = "";
  for await (const chunk of answer) text += chunk;
  const value = JSON.parse(text);
  if (answer.statusCode === 404 && method === "GET") return undefined;
  if (answer.statusCode >= 300) throw new Error(`${answer.statusCode}: ${value.message}`);
  return value;
}

async function publish(site) {
  const { name, uid } = site.metadata;
  const data = { page: site.spec.page };
  const ownerReferences = [{ apiVersion: site.apiVersion, kind: site.kind, name, uid }];
  const old = await call("GET", `${CONFIG_MAPS}/${name}`);
  if (!old) {
    const metadata = { name, labels: { of: name }, ownerReferences };
    await call("POST", CONFIG_MAPS, { apiVersion: "v1", kind: "ConfigMap", metadata, data });
  } else if (old.data.page !== data.page || old.metadata.ownerReferences?.[0]?.uid !== uid) {
    old.data = data;
    old.metadata.ownerReferences = ownerReferences;
    await call("PUT", `${CONFIG_MAPS}/${name}`, old);
  }
}

async function reconcile(name) {
  const site = await call("GET", `${SITES}/${name}`);
  if (!site) return;
  const isPublished = site.status?.page === site.spec.page;
  if (BUG && isPublished) return;
  if (!BUG) await publish(site);
  if (!isPublished) {
    site.status = { page: site.spec.page };
    await call("PUT", `${SITES}/${name}/status`, site);
  }
  if (BUG) await publish(site);
}

const names = new Set();
let isBusy = false;
async function enqueue(name) {
  names.add(name);
  if (isBusy) return;
  isBusy = true;
  for (const next of names) {
    names.delete(next);
    try {
      await reconcile(next);
    } catch (error) {
      console.log(`${next}: ${error.message}`);
      setTimeout(enqueue, 100, next);
    }
  }
  isBusy = false;
}

async function follow(path, nameOf) {
  let version;
  for (;;) {
    try {
      if (version === undefined) {
        const listed = await call("GET", path);
        version = listed.metadata.resourceVersion;
        listed.items.forEach((item) => nameOf(item) && enqueue(nameOf(item)));
      }
      const answer = await open("GET", `${path}?watch=true&resourceVersion=${version}`);
      for await (const line of readline.createInterface({ input: answer })) {
        const event = JSON.parse(line);
        if (event.type === "ERROR") {
          version = undefined;
          break;
        }
        version = event.object.metadata.resourceVersion;
        if (nameOf(event.object)) enqueue(nameOf(event.object));
      }
    } catch {
      version = undefined;
    }
    await pause(50);
  }
}

follow(SITES, (site) => site.metadata.name);
if (!BUG) follow(CONFIG_MAPS, (map) => map.metadata.labels?.of);
