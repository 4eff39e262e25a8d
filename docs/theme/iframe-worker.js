// Browsers start no workers for pages that are read from the disk. The search of the theme wants one:
// here it gets a hidden frame that behaves like a worker, under the name that the theme looks for.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const load = (source) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          script.src = source;
          script.onload = done;
          script.onerror = failed;
          inside.document.head.append(script);
        });
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = async (...sources) => {
        for (const source of sources) await load(source);
      };
      this.frame = frame;
      this.ready = load(new URL(url, location.href).href);
    }

    async postMessage(data) {
      await this.ready;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
