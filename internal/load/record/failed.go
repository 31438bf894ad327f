package record

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
)

// failedNames are the classes of failed requests whose times are kept apart.
var failedNames = [...]string{
	"1xx", "2xx", "3xx", "4xx", "5xx", load.FailedGRPC, string(load.Timeout), string(load.Conn), load.FailedOther,
}

// failedTimes are the response times of failed requests, ns. A class without any is nil.
type failedTimes [len(failedNames)]*hdrhistogram.Histogram

// failedIndex is the index of a failed request's class in failedNames.
func failedIndex(class classIndex, status int) int {
	const grpc, timeout, conn, other = 5, 6, 7, 8
	switch {
	case class == classTimeout:
		return timeout
	case class == classConn:
		return conn
	case status >= load.StatusGRPC && status < load.StatusEcho:
		return grpc
	case status >= 100 && status < 600:
		return status/100 - 1
	}
	return other
}

func (f *failedTimes) add(from *failedTimes) {
	for i, h := range from {
		if h != nil {
			orNew(&f[i]).Merge(h)
		}
	}
}

// quantiles are in ms, by class.
func (f *failedTimes) quantiles() (named map[string]load.Quantiles) {
	for i, h := range f {
		if h != nil {
			set(&named, failedNames[i], quantiles(h, 1e6))
		}
	}
	return named
}

func (f *failedTimes) encode() (named map[string][]byte) {
	for i, h := range f {
		if h != nil {
			encoded, _ := h.EncodeV2() // writes to memory: cannot fail
			set(&named, failedNames[i], encoded)
		}
	}
	return named
}

func (f *failedTimes) decode(named map[string][]byte) error {
	for name, encoded := range named {
		i := slices.Index(failedNames[:], name)
		if i < 0 {
			i = len(failedNames) - 1
		}
		h, err := hdrhistogram.Decode(encoded)
		if err != nil {
			return err
		}
		orNew(&f[i]).Merge(h)
	}
	return nil
}

// times are the response times by class of outcome. A class without any is absent.
func (t *Totals) times() map[string]*hdrhistogram.Histogram {
	named := map[string]*hdrhistogram.Histogram{}
	if t.response.TotalCount() > 0 {
		named[load.Succeeded] = t.response
	}
	for i, h := range t.failed {
		if h != nil {
			named[failedNames[i]] = h
		}
	}
	return named
}

// maxReason bounds a reason, in characters.
const maxReason = 200

// Because stores the text of the first error of a kind.
func (r *Recorder) Because(k load.Failure, err error) {
	if r.reasons[k] == "" && err != nil {
		r.reasons[k] = reasonOf(err)
	}
}

// NotOpened counts a connection that could not be opened.
func (r *Recorder) NotOpened(k load.Failure) {
	r.OpenKinds[k]++
	if r.first == load.FailureNone {
		r.first = k
	}
}

// explain stores the reason of an outcome that the outcome itself shows. Requests without a connection have
// the reason of the first failure before them.
func (r *Recorder) explain(o *Outcome) {
	switch k := o.Kind; {
	case k == load.FailureNotSent:
		if r.first != load.FailureNone && r.reasons[k] == "" {
			r.reasons[k] = "first failure: " + load.Cause{Cause: r.first.String(), Detail: r.reasons[r.first]}.String()
		}
	case k == load.FailureNone || classOf(k) == classStatus:
	default:
		if k == load.FailureTimeout && o.Sent >= 0 && o.First >= o.Sent && r.reasons[k] == "" {
			r.reasons[k] = "an answer began and did not end"
		}
		if r.first == load.FailureNone {
			r.first = k
		}
	}
}

// Said stores the text of the first answer with a grpc-status, which is percent-encoded.
func (r *Recorder) Said(status int, message string) {
	if r.details[status] != "" {
		return
	}
	if text, err := url.PathUnescape(message); err == nil {
		message = text
	}
	r.details[status] = reasonOf(errors.New(message))
}

// reasonOf is an error's text without what the kind's name contains already, bounded
// and without control characters: a server may have chosen parts of it.
func reasonOf(err error) string {
	if verify := (*tls.CertificateVerificationError)(nil); errors.As(err, &verify) {
		err = verify.Err
	}
	text := []rune(printable.Line(err.Error()))
	if len(text) > maxReason {
		text = append(text[:maxReason-1], '…')
	}
	return string(text)
}

// outcome is the result of the requests counted by t.
func (t *Totals) outcome() load.Result {
	var all int64
	for _, n := range t.classes {
		all += n
	}
	if all == 0 {
		return load.Result{}
	}
	success := float64(t.classes[classOK]) / float64(all)
	r := load.Result{Success: &success}
	for status, n := range t.unsuccessful {
		if n > 0 {
			r.Failures = append(r.Failures, load.Cause{Cause: load.CauseStatus + load.StatusName(status), Count: n, Detail: t.details[status]})
		}
	}
	for k, n := range t.kinds {
		if kind := load.Failure(k); n > 0 && kind != load.FailureNone && kind != load.FailureWrongStatus {
			r.Failures = append(r.Failures, load.Cause{Cause: kind.String(), Count: n, Detail: t.reasons[k]})
		}
	}
	slices.SortStableFunc(r.Failures, func(a, b load.Cause) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause)) })
	return r
}

// unsuccessfulOf reads back the statuses of outcome, and their texts.
func unsuccessfulOf(failures []load.Cause) (counts [load.StatusCount]int64, details map[int]string) {
	details = map[int]string{}
	for _, c := range failures {
		name, ok := strings.CutPrefix(c.Cause, load.CauseStatus)
		if status := load.StatusOf(name); ok && status > 0 {
			counts[status] = c.Count
			details[status] = c.Detail
		}
	}
	return counts, details
}

// reasonsByName lists the reasons that occurred.
func (t *Totals) reasonsByName() (named map[string]string) {
	for k, text := range t.reasons {
		if text != "" {
			set(&named, load.Failure(k).String(), text)
		}
	}
	return named
}

// Tally lists kinds of failures, the most frequent first, with the reason of each:
// "connect refused (53), reset (2)".
func Tally(counts map[string]int64, reasons map[string]string) string {
	return strings.Join(lists.Map(printable.MostFirst(counts), func(name string) string {
		return fmt.Sprintf("%s (%d)", load.Cause{Cause: name, Count: counts[name], Detail: reasons[name]}, counts[name])
	}), ", ")
}

// classIndex is a [Class] as an array index.
type classIndex uint8

const (
	classOK classIndex = iota
	classStatus
	classTimeout
	classConn
	classCount
)

var classNames = [classCount]load.Class{load.OK, load.Status, load.Timeout, load.Conn}

// classOf is the class of a request that ended with k.
func classOf(k load.Failure) classIndex {
	switch k {
	case load.FailureNone:
		return classOK
	case load.FailureWrongStatus, load.FailureWrongSize, load.FailureWrongBody, load.FailureNotJSON, load.FailureWrongJSON:
		return classStatus
	case load.FailureTimeout, load.FailureNotSent:
		return classTimeout
	}
	return classConn
}
