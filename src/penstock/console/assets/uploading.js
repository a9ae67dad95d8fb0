// A file becomes a push like any other: the same limits, roles and counts. The page hears what became of it.
window.penstockUpload = (url, kinds, said) => {
  const input = Object.assign(document.createElement("input"), { type: "file", accept: Object.keys(kinds).join(",") });
  input.onchange = async () => {
    const file = input.files[0];
    const ending = (/\.[^.]+$/.exec(file.name.toLowerCase()) ?? [""])[0];
    let found = {};
    try {
      const headers = { "Content-Type": kinds[ending] ?? "application/octet-stream" };
      found = await (await fetch(url, { method: "POST", headers, body: file })).json();
    } catch {
      found = { error: { message: "the server does not answer", hint: "try again in a moment" } };
    }
    const refused = found.refused ?? [];
    emitEvent(said, { error: found.error, accepted: found.accepted, refused: refused.length, first: refused[0] });
  };
  input.click();
};
