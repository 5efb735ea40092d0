/* Looks at every page of the site in a frame, wide and narrow, light and dark, and searches: the script of a page that
   `cargo xtask site --browser` makes. PAGES are the pages. */
(async () => {
  const lines = [];
  const check = (what, holds) => lines.push((holds ? 'PASS ' : 'FAIL ') + what);
  const frame = document.getElementById('frame');
  const load = act => new Promise(resolve => { frame.onload = resolve; act(); });
  const open = url => load(() => { frame.src = url; });
  const page = () => frame.contentDocument;
  const size = width => { frame.style.width = width + 'px'; };
  const theme = name => localStorage.setItem('mdbook-theme', name);
  const until = async test => {
    for (let wait = 0; wait < 400; wait++) {
      if (test()) return true;
      await new Promise(resolve => setTimeout(resolve, 25));
    }
    return false;
  };

  /* What sticks out of the window, unless it scrolls by itself. */
  const wide = width => {
    const scrolls = it => it && it !== page().body && (/auto|scroll|hidden/.test(frame.contentWindow.getComputedStyle(it).overflowX) || scrolls(it.parentElement));
    if (page().documentElement.scrollWidth <= width) return '';
    const found = [...page().querySelectorAll('body *')].find(it => it.getBoundingClientRect().right > width + 1 && !scrolls(it));
    return ': ' + (found ? found.tagName + '.' + found.className + ' ' + found.textContent.trim().slice(0, 60) : 'nothing visible');
  };

  /* The least contrast of text with what is behind it, as WCAG 2 counts it. */
  const parts = color => (color.match(/[\d.]+/g) || []).map(Number);
  const light = ([red, green, blue]) => {
    const linear = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  };
  const behind = it => {
    for (; it; it = it.parentElement) {
      const color = parts(frame.contentWindow.getComputedStyle(it).backgroundColor);
      if (color.length === 3 || color[3] > 0.5) return color;
    }
    return [255, 255, 255];
  };
  const faint = () => {
    let least = [99, ''];
    for (const it of page().querySelectorAll('main :is(p, li, a, td, th, h1, h2, h3, code), #mdbook-sidebar a, #mdbook-searchresults-outer :is(div, a, span)')) {
      if (!it.textContent.trim() || it.closest('pre')) continue;
      const [front, back] = [light(parts(frame.contentWindow.getComputedStyle(it).color)), light(behind(it))];
      const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
      if (ratio < least[0]) least = [ratio, it.tagName + ' ' + it.textContent.trim().slice(0, 40)];
    }
    return least;
  };

  try {
    for (const [name, width] of [['light', 390], ['light', 1280], ['navy', 1280]]) {
      theme(name);
      size(width);
      for (const url of PAGES) {
        await open(url);
        if (name === 'light') {
          const out = wide(width);
          check(url + ': nothing is wider than ' + width + out, !out);
        }
        if (width === 1280) {
          const [ratio, what] = faint();
          check(url + ', ' + name + ': the faintest text has a contrast of ' + ratio.toFixed(1) + ': ' + what, ratio >= 4.5);
        }
      }
    }
    for (const name of ['light', 'navy']) for (const width of [1280, 390]) {
      theme(name);
      size(width);
      const where = name + ', ' + width + ': ';
      const results = () => page().querySelectorAll('#mdbook-searchresults > li');
      const type = word => {
        const bar = page().getElementById('mdbook-searchbar');
        bar.value = word;
        bar.dispatchEvent(new KeyboardEvent('keyup', { key: word.slice(-1), bubbles: true }));
      };
      await open('index.html');
      check(where + 'the search box is closed', page().getElementById('mdbook-search-wrapper').classList.contains('hidden'));
      page().getElementById('mdbook-search-toggle').click();
      check(where + 'the button opens it', await until(() => !page().getElementById('mdbook-search-wrapper').classList.contains('hidden')));
      type('rollover');
      check(where + 'a word is found', await until(() => results().length > 1));
      check(where + 'each result leads to a page', [...results()].every(it => it.querySelector('a[href]')));
      type('shootdown');
      check(where + 'another word is found', await until(() => [...results()].some(it => /shootdown/i.test(it.textContent))));
      const outer = page().getElementById('mdbook-searchresults-outer');
      const [ratio, what] = faint();
      check(where + 'the faintest text has a contrast of ' + ratio.toFixed(1) + ': ' + what, ratio >= 4.5);
      check(where + 'the results are not wider' + wide(width), !wide(width) && outer.scrollWidth <= outer.clientWidth);
      type('zxqjv');
      check(where + 'a word that is nowhere is not found', await until(() => !results().length));
      check(where + 'and it is said', /no search results/i.test(page().getElementById('mdbook-searchresults-header').textContent));
      type('rollover');
      await until(() => results().length > 1);
      const link = results()[0].querySelector('a');
      const to = new URL(link.href).pathname;
      await load(() => link.click());
      check(where + 'a result is followed', frame.contentWindow.location.pathname === to);
      check(where + 'the word is marked there', await until(() => [...page().querySelectorAll('mark')].some(it => /rollover/i.test(it.textContent))));
    }
  } catch (error) {
    check('no exception: ' + error, false);
  }
  const verdict = document.createElement('pre');
  verdict.textContent = lines.join('\n') + '\nEND of ' + lines.length + '\n';
  verdict.id = 'verdict';
  document.body.append(verdict);
})();
