use super::*;
use crate::report::sample;

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    for document in [sample::ordinary(), sample::crowded(), sample::idle(), sample::hostile()] {
        let page = to_html(&document);
        for outside in ["http://", "https://", "<link rel=\"stylesheet", "@import", "url("] {
            let text = page.replace(&data(&document), "");
            let about = document.machine.note.clone().unwrap_or_default();
            let text = text.replace(&about, "");
            assert!(!text.contains(outside), "{outside}");
        }
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>"));
    }
}

#[test]
fn names_of_a_trace_are_text_wherever_they_stand() {
    let page = to_html(&sample::hostile());
    // The two scripts of the page, and nothing that a name has brought.
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert_eq!(page.matches("<img").count(), 0);
    assert_eq!(page.matches("<b>bold").count(), 0);
    let (head, _) = page.split_once("<style>").unwrap();
    assert_eq!(head.matches("</title").count(), 1, "pictures have titles, too");
    assert!(page.contains("&#60;script&#62;"));
    assert!(page.contains("{{ 7 * 7 }}"));
}

#[test]
fn the_embedded_json_is_the_document() {
    let document = sample::hostile();
    let page = to_html(&document);
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let (text, _) = rest.split_once("</script>").unwrap();
    let embedded: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(embedded, serde_json::to_value(&document).unwrap());
}

#[test]
fn a_page_has_each_strategy_and_each_initiator_once_in_its_table() {
    let document = sample::crowded();
    let page = to_html(&document);
    assert_eq!(page.matches("<tr><th scope=\"row\">worker-").count(), 1000);
    let rows = page.matches("<th scope=\"row\">strategy-").count();
    assert_eq!(rows, 2 * 16, "the first table, and that of the curves");
    assert!(page.contains("Show all 1000"));
    // 16 strategies with 1000 initiators each are most of it.
    assert!(page.len() < 12 << 20, "{}", page.len());
    let small = to_html(&sample::ordinary());
    assert!(small.len() < 100 << 10, "{}", small.len());
}

#[test]
fn a_page_about_nothing_says_so() {
    let page = to_html(&sample::idle());
    assert!(page.contains("spends no time on TLB flushes and switches"));
    assert!(page.contains("Nobody caused any upkeep"));
    for odd in ["NaN", "inf", "id=\"scaling\"", "id=\"sensitivity\""] {
        assert!(!page.contains(&format!(">{odd}")) && !page.contains(&format!(" {odd}>")), "{odd}");
    }
}

#[test]
fn losses_are_said() {
    let page = to_html(&sample::crowded());
    assert!(page.contains("<strong>2\u{202f}400</strong> were lost while recording"));
    assert!(page.contains("1\u{202f}204 flushes without a known address"));
}

#[test]
fn a_share_above_the_whole_is_explained() {
    let mut document = sample::ordinary();
    assert!(!to_html(&document).contains(OVERFULL));
    let mut curves = document.clone();
    curves.scaling[0].points[0].share = 1.01;
    assert!(to_html(&curves).contains(OVERFULL));
    document.results[1].total = document.results[1].traced * 2 * document.results[1].cpus as u64;
    assert!(to_html(&document).contains(OVERFULL));
}
