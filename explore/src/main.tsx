import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { read } from "./data";
import { bind } from "./mask/bind";
import { counts, edges } from "./mask/density";
import { facts, tiles } from "./mask/questions";
import { parse } from "./mask/text";
import { sees } from "./mask/evaluate";
import { type Language, why } from "./mask/why";
import "./style.css";
import { AuditView } from "./views/audit";
import { Bench } from "./views/bench";
import { GenerationView } from "./views/generation";
import { TrainingView } from "./views/training";
import { WORDS } from "./words";

const VIEWS = ["mask", "generation", "training", "audit"] as const;
type View = (typeof VIEWS)[number];

const data = read();

/** The view to open: the one named in the address, or the first that has data. */
function opened(): View {
  const named = VIEWS.find((view) => location.hash === `#${view}`);
  return named ?? (data.audit && !data.generation ? "audit" : data.generation ? "generation" : "mask");
}

function App() {
  const [language, setLanguage] = useState<Language>(navigator.language.startsWith("zh") ? "zh" : "en");
  const [view, setView] = useState<View>(opened);
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  const say = WORDS[language];
  useEffect(() => {
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    document.title = `${say.title} – ${say[view]}`;
  });
  const show = (next: View) => {
    setView(next);
    history.replaceState(null, "", `#${next}`);
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = VIEWS[(VIEWS.indexOf(view) + step + VIEWS.length) % VIEWS.length];
    show(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <>
      <a class="skip" href="#panel">{say.skip}</a>
      <header>
        <h1>{say.title} <small>{say.tagline}</small></h1>
        <div role="tablist" aria-label={say.title} onKeyDown={onKey}>
          {VIEWS.map((name) => (
            <button role="tab" id={`tab-${name}`} aria-selected={name === view} aria-controls="panel"
              tabIndex={name === view ? 0 : -1} onClick={() => show(name)} key={name}>{say[name]}</button>
          ))}
        </div>
        <div class="settings">
          <button onClick={() => setDark(!dark)} aria-label={say.theme} title={say.theme} aria-pressed={dark}>◐</button>
          <button id="language" onClick={() => setLanguage(language === "en" ? "zh" : "en")} aria-label={say.languageLabel}
            lang={language === "en" ? "zh-CN" : "en"}>{say.language}</button>
        </div>
      </header>
      <main><div id="panel" role="tabpanel" aria-labelledby={`tab-${view}`} tabIndex={-1}>
        {view === "mask" && <Bench say={say} language={language} given={data.mask} dark={dark} />}
        {view === "generation" && <GenerationView say={say} recording={data.generation} language={language} />}
        {view === "training" && <TrainingView say={say} lesson={data.training} />}
        {view === "audit" && <AuditView say={say} report={data.audit} />}
      </div></main>
    </>
  );
}

render(<App />, document.getElementById("app")!);

// For the console, and for tests: the same functions that the page uses.
Object.assign(globalThis, { hitherto: { parse, sees, bind, facts, tiles, counts, edges, why } });
