use super::*;
use crate::report::sample;

#[test]
fn the_parts_of_a_bar_are_as_long_as_what_they_stand_for() {
    let document = sample::ordinary();
    let most = document.results.iter().map(|result| result.total).max().unwrap();
    for (bar, result) in bars(&document).iter().zip(&document.results) {
        let mut end = 0.0;
        for segment in &bar.segments {
            assert!((segment.x - end).abs() < 0.05, "{} {end}", segment.x);
            end = segment.x + segment.width;
            let spent = result.upkeep.iter().nth(segment.cause).unwrap().1;
            let expected = 1000.0 * spent as f64 / most as f64;
            assert!((segment.width - expected).abs() < 0.01);
        }
        assert!((end - 1000.0 * result.total as f64 / most as f64).abs() < 0.1);
    }
    assert!(bars(&sample::idle()).iter().all(|bar| bar.segments.is_empty()));
}

#[test]
fn labels_of_many_lines_do_not_touch_and_stay_in_the_picture() {
    let curves = curves(&sample::crowded().scaling).unwrap();
    assert_eq!(curves.lines.len(), 16);
    let mut labels: Vec<f64> = curves.lines.iter().map(|line| line.label).collect();
    labels.sort_by(f64::total_cmp);
    assert!(labels.windows(2).all(|pair| pair[1] - pair[0] >= APART - 0.02), "{labels:?}");
    assert!(labels[0] >= 0.0 && labels[15] <= curves.bottom + 0.01, "{labels:?}");
    assert_eq!(curves.lines.iter().filter(|line| line.colour.is_none()).count(), 8);
}

#[test]
fn points_are_in_the_picture_and_more_is_higher() {
    let document = sample::ordinary();
    let curves = curves(&document.scaling).unwrap();
    for (line, curve) in curves.lines.iter().zip(&document.scaling) {
        for (pair, points) in line.points.windows(2).zip(curve.points.windows(2)) {
            assert!(pair[0].x < pair[1].x);
            assert_eq!(pair[0].y > pair[1].y, points[0].share < points[1].share);
        }
        let inside = |mark: &Mark| (LEFT..=RIGHT).contains(&mark.x) && mark.y >= TOP;
        assert!(line.points.iter().all(inside));
    }
    assert!(super::curves(&[]).is_none());
    assert!(!curves.crossings.is_empty());
}

#[test]
fn the_number_on_which_most_depends_comes_first() {
    let mut sensitivity = sample::ordinary().sensitivity.unwrap();
    sensitivity.swings.reverse();
    let tornado = tornado(&sensitivity);
    let reach = |row: &Arm| {
        let swing = sensitivity.swings.iter().find(|swing| swing.parameter == row.parameter);
        swing.expect("a row is a number's").reach()
    };
    assert!(tornado.rows.windows(2).all(|pair| reach(&pair[0]) >= reach(&pair[1])));
    assert_eq!(tornado.rows[0].parameter, "prices.interrupt_deliver");
    // The bars meet where the factor is.
    for row in &tornado.rows {
        for [x, width] in [row.low_bar, row.high_bar] {
            let touches =
                (x - tornado.centre).abs() < 0.05 || (x + width - tornado.centre).abs() < 0.05;
            assert!(touches, "{} {x} {width}", row.parameter);
        }
    }
}
