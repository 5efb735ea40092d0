/* Tries the playground out: put at the end of the page by `cargo xtask site`. */
(() => {
  const lines = [];
  const check = (what, holds) => lines.push((holds ? 'PASS ' : 'FAIL ') + what);
  const count = selector => document.querySelectorAll(selector).length;
  try {
    check('there are thirty protocols at least', at('protocol').options.length >= 30);
    for (const { name, expected, described, fixed } of DATA.filter(it => it.described)) {
      open(name, 'described');
      check(name + ': a column for each CPU', count('#cpus > section') >= graph.states[0][0].length);
      if (violation(state())) {
        check(name + ': there is one order only, and it is told', count('#log div') > 2 && at('verdict').textContent !== '');
        continue;
      }
      check(name + ': something can happen', count('.steps button') > 0);
      if (expected !== 'sound') {
        at('find').click();
        check(name + ': the way to the bug is marked', count('button.plan') === 1);
        at('next').click();
        check(name + ': a step was taken', way.length === 2);
        at('end').click();
        check(name + ': the rule is broken', at('verdict').textContent.includes('Broken: ' + expected));
        check(name + ': nothing can happen after it', count('.steps button') === 0);
        at('back').click();
        check(name + ': a step back', at('verdict').textContent === '' && count('.steps button') > 0);
      } else {
        check(name + ': no state breaks a rule', at('find').disabled && !graph.states.some(violation));
      }
      if (fixed) {
        open(name, 'fixed');
        check(name + ': repaired, no state breaks a rule', at('find').disabled);
      }
    }
    open('freed-before-the-flush', 'described');
    at('find').click();
    at('end').click();
    check('the stale translation is seen in a TLB', count('#cpus li.stale') > 0);
    open('generation-and-mask', 'described');
    for (let step = 0; step < 500 && count('.steps button'); step++) document.querySelector('.steps button').click();
    check('stepping by hand comes to an end', count('.steps button') === 0 && way.length > 2);
    check('nothing is wider than the window', document.documentElement.scrollWidth <= innerWidth);
  } catch (error) {
    check('no exception: ' + error, false);
  }
  const verdict = element('pre', lines.join('\n') + '\nEND of ' + lines.length + '\n');
  verdict.id = 'verdict';
  document.body.append(verdict);
})();
