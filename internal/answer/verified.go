package answer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// Verified is how the traffic of meshes through their proxies was verified, in every valid trial.
type Verified struct {
	Meshes []string `json:"meshes"`
	Proof
}

// Proof is what verified the traffic.
type Proof struct {
	// Counters of the proxies agree with the requests of the load.
	Counters bool `json:"counters"`
	// Nonces: random answers came through the proxies before the load.
	Nonces bool `json:"nonces,omitempty"`
	// Arrivals: requests through the proxies arrived at the application one by one before the load.
	Arrivals bool `json:"arrivals,omitempty"`
	// Sockets: the kernel showed no connection past the proxies during the load.
	Sockets bool `json:"sockets,omitempty"`
	// Served: requests that reached the application are counted.
	Served bool `json:"served,omitempty"`
	// Bytes: the count is of the bytes that the application's sockets received.
	Bytes bool `json:"bytes,omitempty"`
}

// verified returns the proof of each mesh with a data plane. Meshes with the same proof are together.
func verified(run *compare.Run) (all []Verified) {
	proofs := map[string]Proof{}
	var names []string
	for i := range run.Records {
		r := &run.Records[i]
		name, named := r.Factors[experiment.MeshFactor].(string)
		if !r.Valid || !named || !slices.ContainsFunc(r.Tasks, func(t result.TaskUsage) bool { return t.Plane == metric.Data }) {
			continue
		}
		p := proofOf(r)
		if was, ok := proofs[name]; ok {
			p = Proof{p.Counters && was.Counters, p.Nonces && was.Nonces, p.Arrivals && was.Arrivals, p.Sockets && was.Sockets, p.Served && was.Served, p.Bytes || was.Bytes}
		} else {
			names = append(names, name)
		}
		proofs[name] = p
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(o Verified) bool { return o.Proof == proofs[name] })
		if i < 0 {
			all = append(all, Verified{[]string{name}, proofs[name]})
		} else {
			all[i].Meshes = append(all[i].Meshes, name)
		}
	}
	return all
}

func proofOf(r *result.Record) (p Proof) {
	has := func(prefix string) bool {
		for _, c := range r.Checks {
			if strings.HasPrefix(c.Name, prefix) {
				return c.OK
			}
		}
		return false
	}
	p.Nonces, p.Arrivals, p.Sockets = has("nonce through "), has("arrivals through "), has("connections to the application of ")
	_, p.Counters = countedProxied(r)
	if r.Balance == nil {
		return p
	}
	for _, f := range r.Balance.Flows {
		switch {
		case f.Unknown != "":
		case f.Point == balance.Served:
			p.Served, p.Bytes = true, f.Bytes > 0
		case f.Point != balance.Sent && f.Unit != balance.Requests:
			p.Counters = true // a proxy of connections
		}
	}
	return p
}

// LatencyMeaning is the definition of one generator's latency.
type LatencyMeaning struct {
	Generator string `json:"generator"`
	Of        string `json:"of"` // "response": latency_ms; "service": service_ms
	Meaning   string `json:"meaning"`
}

// meanings are the definitions of the published latencies, once a generator and kind.
func meanings(records []result.Record) []LatencyMeaning {
	var all []LatencyMeaning
	for _, r := range records {
		if r.Load == nil || r.Error != "" {
			continue
		}
		for _, d := range r.Load.Published {
			m := LatencyMeaning{r.Load.Generator, d.Of, d.Meaning}
			if d.Meaning != "" && (d.Of == "response" || d.Of == "service") && !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b LatencyMeaning) int {
		return cmp.Or(cmp.Compare(a.Generator, b.Generator), cmp.Compare(a.Of, b.Of))
	})
	return all
}

// AnswersDiffer is the code of a warning of treatments whose clients got other answers.
const AnswersDiffer = "answers-differ"

const (
	// moreBytes and moreShare are what headers of proxies may add to the bytes of an answer.
	moreBytes = 512
	moreShare = 0.1
	// rareStatus is the share of answers below which a status is not compared.
	rareStatus = 0.01
)

// received are the answers that the clients of one treatment got.
type received struct {
	treatment string
	probed    []check.Answer // of all deployments
	trials    int            // with probed answers
	statuses  []string       // of success in the load, sorted
	bytes     float64        // of an answer in the load, headers included
	// translated: a gateway rewrites answers, so that only their statuses are compared.
	translated bool
}

// answersDiffer compares the answers of each treatment with its baseline's answers. Other answers are other work: the
// figures of both are correct, but their difference is not the cost of the same work.
func answersDiffer(run *compare.Run) (ws []figures.Warning) {
	of := map[string]received{}
	for _, t := range run.Plan.Treatments {
		of[t.ID] = receivedBy(run, t.ID)
	}
	for _, t := range run.Plan.Treatments {
		i := slices.IndexFunc(run.Plan.Treatments, func(b plan.Treatment) bool { return b.ID == t.Baseline })
		if i < 0 || !sameRequests(t, run.Plan.Treatments[i]) {
			continue
		}
		if text := otherWork(of[t.Baseline], of[t.ID]); text != "" {
			ws = append(ws, figures.Warning{Code: AnswersDiffer, Message: text,
				Hint: "compare the answers, such as by curl, and the logs of application and proxy; load.headers sets the Host, and load.checks what an answer must have"})
		}
	}
	return ws
}

// sameRequests reports whether two treatments must have the same answers.
func sameRequests(a, b plan.Treatment) bool {
	x, y := a.Levels, b.Levels
	return x.Route == y.Route && x.Application == y.Application && x.Protocol == y.Protocol && x.RequestSize == y.RequestSize && x.ResponseSize == y.ResponseSize
}

func receivedBy(run *compare.Run, treatment string) received {
	r := received{treatment: treatment}
	statuses, answers, bytes := map[string]int64{}, int64(0), int64(0)
	for i := range run.Records {
		record := &run.Records[i]
		if record.Treatment != treatment || record.Error != "" {
			continue
		}
		r.translated = r.translated || proofOf(record).Arrivals
		for _, a := range record.Answers {
			r.probed = check.Merge(r.probed, a)
		}
		if len(record.Answers) > 0 {
			r.trials++
		}
		if l := record.Load; l != nil && record.Valid {
			for status, n := range l.Statuses {
				statuses[status] += n
				answers += n
			}
			bytes += l.BytesIn
		}
	}
	for status, n := range statuses {
		if load.DefaultSuccess[load.StatusOf(status)] && float64(n) > rareStatus*float64(answers) {
			r.statuses = append(r.statuses, status)
		}
	}
	slices.Sort(r.statuses)
	if answers > 0 {
		r.bytes = float64(bytes) / float64(answers)
	}
	return r
}

// otherWork describes how the answers of two treatments differ. Empty: they do not.
func otherWork(a, b received) string {
	if a.translated || b.translated {
		a.probed, a.bytes = nil, 0
	}
	same := len(a.probed) > 0
	for _, x := range a.probed {
		i := slices.IndexFunc(b.probed, func(y check.Answer) bool { return y.Request == x.Request })
		if i < 0 {
			continue
		}
		y := b.probed[i]
		if x.Differs(y, a.trials > 1 && b.trials > 1) {
			return fmt.Sprintf("%s has other answers in %s (%s) than in %s (%s)", x.Request, b.treatment, properties(y, x), a.treatment, properties(x, y))
		}
		same = same && x.Bytes != nil && y.Bytes != nil
	}
	switch {
	case len(a.statuses) > 0 && len(b.statuses) > 0 && !slices.Equal(a.statuses, b.statuses):
		return fmt.Sprintf("the load had other answers in %s (status %s) than in %s (status %s)", b.treatment, strings.Join(b.statuses, ", "), a.treatment, strings.Join(a.statuses, ", "))
	case same && a.bytes > 0 && b.bytes > 0 && math.Abs(a.bytes-b.bytes) > moreBytes+moreShare*min(a.bytes, b.bytes):
		return fmt.Sprintf("the load had other answers in %s (%.0f bytes with headers) than in %s (%.0f bytes)", b.treatment, b.bytes, a.treatment, a.bytes)
	}
	return ""
}

// properties are the properties of a that differ from b.
func properties(a, b check.Answer) string {
	var all []string
	if a.Status != b.Status && a.Status != "" {
		all = append(all, "status "+a.Status)
	}
	if a.Bytes != nil && b.Bytes != nil && *a.Bytes != *b.Bytes {
		all = append(all, fmt.Sprintf("%d bytes", *a.Bytes))
	}
	if a.ContentType != nil && b.ContentType != nil && *a.ContentType != *b.ContentType {
		all = append(all, fmt.Sprintf("Content-Type %q", *a.ContentType))
	}
	if len(all) == 0 {
		return "content " + a.SHA256[:min(8, len(a.SHA256))]
	}
	return strings.Join(all, ", ")
}
