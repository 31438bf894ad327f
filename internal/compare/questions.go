package compare

import (
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Question is one change of factors against its baseline, such as a mesh against none. Its
// headline tests are a family of their own. Where other factors vary, its treatments are
// the levels of one question: the mean over the levels comes first, and the levels of a
// metric follow only if its mean differs. See [estimator.levels].
type Question struct {
	ID         string       `json:"id"`      // "mesh=envoy against mesh=none"
	Factors    plan.Factors `json:"factors"` // in which the treatments differ from their baselines
	Against    plan.Factors `json:"against"`
	Treatments []string     `json:"treatments"`
	Tests      int          `json:"tests"`            // headline tests of the first step
	Pooled     []Pooled     `json:"pooled,omitempty"` // over the treatments, where there are several
}

// Pooled is the mean over the treatments of a question, for one metric. The block is the
// observation: its value is the mean over the treatments of the differences, or of the
// logarithms of the ratios. P comes from one test of these means. It does not combine the p-values of the levels,
// whose adjusted ones hold only where the mean is shown: see levels.
type Pooled struct {
	Metric     string          `json:"metric"`
	Unit       string          `json:"unit"`
	Difference *stats.Interval `json:"difference,omitempty"`
	Ratio      *stats.Interval `json:"ratio,omitempty"`
	Levels     int             `json:"levels"`
	N          int             `json:"n"` // blocks with every treatment and baseline
	P          *float64        `json:"p,omitempty"`
	OnRatio    bool            `json:"on_ratio,omitempty"`
	PAdjusted  *float64        `json:"p_adjusted,omitempty"` // Holm, over the metrics of the question
	Verdict    Verdict         `json:"verdict"`
	Smallest   *Smallest       `json:"smallest,omitempty"`
	// Heterogeneity is the p-value of "the same at every level".
	Heterogeneity *float64 `json:"heterogeneity_p,omitempty"`
	// Speed: Difference is at the mean speed of the machine, as the differences of the levels are.
	Speed *SpeedAdjusted `json:"speed,omitempty"`
}

// pooled is a mean over treatments with its test.
type pooled struct {
	Pooled
	test stats.Result
}

// asked is a question with its tests.
type asked struct {
	Question
	pooled []pooled
}

// questions groups the comparisons. Runs without pairs have no questions: their comparisons
// stay in the families of the run.
func (run *Run) questions(cs []compared, byTreatment map[string][]figures.Measured) []asked {
	if run.estimator.method != Paired {
		return nil
	}
	var all []asked
	members := map[string][]plan.Treatment{}
	planned := run.Plan.ByID()
	for _, t := range run.Plan.Treatments {
		if t.Baseline == "" || t.Control {
			continue
		}
		q := questionOf(t, planned[t.Baseline])
		if members[q.ID] == nil {
			all = append(all, asked{Question: q})
		}
		members[q.ID] = append(members[q.ID], t)
	}
	ids := map[string]string{}
	for i := range all {
		q := &all[i]
		for _, t := range members[q.ID] {
			q.Treatments = append(q.Treatments, t.ID)
			ids[t.ID] = q.ID
		}
		if len(q.Treatments) > 1 {
			q.pooled = run.estimator.pool(members[q.ID], byTreatment)
		}
	}
	for i := range cs {
		if !cs[i].Control {
			cs[i].Question = ids[cs[i].Treatment]
		}
	}
	return all
}

// questionOf is the question of one treatment: the factors in which it differs from its baseline.
func questionOf(t, base plan.Treatment) Question {
	q := Question{Factors: plan.Factors{}, Against: plan.Factors{}}
	var is, was []string
	for f, v := range t.Factors {
		if b := base.Factors[f]; b != v {
			q.Factors[f], q.Against[f] = v, b
			is, was = append(is, f+"="+LevelText(v)), append(was, f+"="+LevelText(b))
		}
	}
	slices.Sort(is)
	slices.Sort(was)
	q.ID = strings.Join(is, ", ") + " against " + strings.Join(was, ", ")
	return q
}

// pool estimates the mean over the treatments, for each headline metric known in all.
func (x *estimator) pool(treatments []plan.Treatment, byTreatment map[string][]figures.Measured) []pooled {
	type sides struct{ treatment, baseline map[int]figures.Measured }
	levels := make([]sides, len(treatments))
	for i, t := range treatments {
		levels[i] = sides{byBlock(byTreatment[t.ID]), byBlock(byTreatment[t.Baseline])}
	}
	var out []pooled
	for _, name := range metric.Headlines() {
		m, _ := metric.Lookup(name)
		var differences, ratios [][]float64 // by block
		compared := make([]pairs, len(levels))
		for block := 1; block <= x.blocks; block++ {
			var d, r, ts, bs []float64
			for _, l := range levels {
				t, ok1 := l.treatment[block].Metrics[name]
				b, ok2 := l.baseline[block].Metrics[name]
				if !ok1 || !ok2 {
					break
				}
				ts, bs, d = append(ts, t), append(bs, b), append(d, t-b)
				r = append(r, math.Log(t/b)) // NaN or infinite: there is no ratio
			}
			if len(d) == len(levels) {
				differences, ratios = append(differences, d), append(ratios, r)
				for i := range compared {
					p := &compared[i]
					p.treatment, p.baseline, p.blocks = append(p.treatment, ts[i]), append(p.baseline, bs[i]), append(p.blocks, block)
				}
			}
		}
		if len(differences) == 0 {
			continue
		}
		p := x.mean(m, differences, ratios)
		if !p.OnRatio {
			x.pooledAtMeanSpeed(&p, treatments, compared)
		}
		out = append(out, p)
	}
	return out
}

func (x *estimator) mean(m metric.Metric, differences, ratios [][]float64) pooled {
	p := pooled{Pooled: Pooled{Metric: m.Name, Unit: m.Unit, Levels: len(differences[0]), N: len(differences), Verdict: Insufficient}}
	d := stats.MeanInterval(means(differences), x.confidence)
	p.test, p.Difference, p.P = d, &d.Interval, d.P
	rows := differences
	if r := stats.GeometricMean(means(ratios), x.confidence); r.Why != stats.NotFinite {
		p.Ratio = &r.Interval
		if m.Judged == metric.ByRatio && r.P != nil {
			p.P, p.OnRatio, p.test, rows = r.P, true, r, ratios
		}
	}
	if p.test.Why == stats.NoSpread {
		if p.Verdict = NotShown; p.test.Estimate != 0 {
			exact := stats.ExactEqual(p.N)
			p.P = &exact
		}
	}
	p.Heterogeneity = stats.Heterogeneity(rows)
	return p
}

// adjust corrects the p-values for their number, in each family separately, and gives
// verdicts. It returns the numbers of tests.
func (x *estimator) adjust(cs []compared, questions []asked) map[Family]int {
	sizes := map[Family]int{}
	families := map[[2]string][]int{} // by question and family
	var order [][2]string
	for i, c := range cs {
		if c.P == nil {
			continue
		}
		sizes[c.Family]++
		key := [2]string{c.Question, string(c.Family)}
		if families[key] == nil {
			order = append(order, key)
		}
		families[key] = append(families[key], i)
	}
	for _, key := range order {
		i := slices.IndexFunc(questions, func(q asked) bool { return q.ID == key[0] })
		if i >= 0 && len(questions[i].Treatments) > 1 && key[1] == string(Headline) {
			x.levels(cs, families[key], &questions[i])
			continue
		}
		if i >= 0 && key[1] == string(Headline) {
			questions[i].Tests = len(families[key])
		}
		x.holm(cs, families[key], x.alpha(), 1, 0)
	}
	return sizes
}

// levels gives the verdicts of a question over several levels. The first step is Holm's
// over the means of the metrics. A metric whose mean differs is selected. Its levels are a
// family, tested at the level times the share of metrics that are selected. This bounds the
// mean chance of a false claim over the selected families (Benjamini, Bogomolov, "Selective
// inference on multiple families of hypotheses", JRSS B 2014). Without any true difference
// the first step alone bounds the chance of every claim. An adjusted p-value of a level is divided by that share, so it
// is comparable with alpha, and not with the values of other questions.
func (x *estimator) levels(cs []compared, family []int, q *asked) {
	byMetric := map[string][]int{}
	var names []string
	for _, i := range family {
		if byMetric[cs[i].Metric] == nil {
			names = append(names, cs[i].Metric)
		}
		byMetric[cs[i].Metric] = append(byMetric[cs[i].Metric], i)
	}
	parents := make([]float64, len(names))
	means := make([]*pooled, len(names))
	for i, name := range names {
		if at := slices.IndexFunc(q.pooled, func(p pooled) bool { return p.Metric == name && p.P != nil }); at >= 0 {
			means[i] = &q.pooled[at]
			parents[i] = *means[i].P
			continue
		}
		least := 1.0 // no block has all levels: Bonferroni's test that all are equal
		for _, c := range byMetric[name] {
			least = math.Min(least, *cs[c].P)
		}
		parents[i] = math.Min(1, least*float64(len(byMetric[name])))
	}
	q.Tests = len(names)
	levels, _ := stats.HolmLevels(parents, x.alpha())
	adjusted := stats.Holm(parents)
	selected := 0
	for _, v := range adjusted {
		if v < x.alpha() {
			selected++
		}
	}
	for i, name := range names {
		shown := adjusted[i] < x.alpha()
		if p := means[i]; p != nil {
			p.PAdjusted = &adjusted[i]
			p.Verdict = verdict(shown, p.direction())
			p.Smallest = x.smallest(p.test, levels[i], p.OnRatio)
		}
		among := selected
		if !shown {
			among++ // as if it were selected: the step that would apply
		}
		share := float64(among) / float64(len(names))
		x.holm(cs, byMetric[name], x.alpha()*share, 1/share, adjusted[i])
	}
}

// holm gives the verdicts of one family at level alpha. It multiplies p-values by scale.
// They are at least parent, the p-value of the test that the family depends on.
func (x *estimator) holm(cs []compared, family []int, alpha, scale, parent float64) {
	p := make([]float64, len(family))
	for i, at := range family {
		p[i] = *cs[at].P
	}
	levels, _ := stats.HolmLevels(p, alpha)
	for i, v := range stats.Holm(p) {
		c := &cs[family[i]]
		v = math.Max(parent, math.Min(1, v*scale))
		c.PAdjusted = &v
		c.Verdict = verdict(v < x.alpha(), c.direction())
		c.Smallest = x.smallest(c.test, levels[i], c.OnRatio)
		if c.Runs == nil && c.Verdict == NotShown && *c.P < x.alpha() {
			if n, _ := stats.BlocksToShow(c.test, levels[i]); n > c.N { // else the means over the levels decided
				c.BlocksNeeded = n
			}
		}
		c.same()
	}
}

func means(rows [][]float64) []float64 {
	out := make([]float64, len(rows))
	for i, r := range rows {
		out[i] = stats.Mean(r)
	}
	return out
}

// direction is above zero if the treatments are higher.
func (p *pooled) direction() float64 {
	if p.OnRatio {
		return p.Ratio.Estimate - 1
	}
	return p.Difference.Estimate
}

// mostRelative is the relative difference above which a smallest difference is unknown: no treatment
// has it, and with few noisy pairs its logarithm exceeds every number.
const mostRelative = 1000

// smallest is the smallest true difference that a test at a level shows, or nil if unknown.
func (x *estimator) smallest(r stats.Result, level float64, relative bool) *Smallest {
	i, ok := r.Detectable(level, stats.Power, x.confidence)
	if !ok {
		return nil
	}
	if relative {
		low, high := math.Expm1(*i.Low), math.Expm1(*i.High)
		i = stats.Interval{Estimate: math.Expm1(i.Estimate)}
		if i.Estimate > mostRelative {
			return nil
		}
		if high <= mostRelative {
			i.Low, i.High = &low, &high
		}
	}
	return &Smallest{Interval: i, Relative: relative, Level: level}
}
