package generator

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// k6Duration is the metric of a request's time.
const k6Duration = "http_req_duration"

// longestService bounds the time of a request, in ms: no generator waits longer.
const longestService = 1e9

// EachK6Record calls each with every request of k6 --out json: a line for each metric of a request, with the time of its end.
// The result of k6's responseCallback decides what failed.
func EachK6Record(r io.Reader, _ bool, each func(Record)) error {
	return eachLine(r, "k6", func(line string) error {
		if !strings.Contains(line, k6Duration) {
			return nil
		}
		var point struct {
			Type   string `json:"type"`
			Metric string `json:"metric"`
			Data   struct {
				Time  time.Time `json:"time"`
				Value float64   `json:"value"` // ms
				Tags  struct {
					Status   string `json:"status"`
					Expected string `json:"expected_response"`
					Error    string `json:"error"`
				} `json:"tags"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &point); err != nil {
			return err
		}
		if point.Type != "Point" || point.Metric != k6Duration {
			return nil
		}
		at, took, tags := point.Data.Time, point.Data.Value, point.Data.Tags
		if y := at.Year(); y < 1970 || y > 2200 || !(took >= 0 && took <= longestService) {
			return fmt.Errorf("time %v, %v ms", at, took)
		}
		rec := Record{Done: time.Duration(at.UnixNano()), Service: span(took / 1e3), Late: unknown, Response: unknown, Size: -1}
		rec.At = rec.Done - rec.Service
		var err error
		if tags.Status != "" {
			if rec.Code, err = strconv.Atoi(tags.Status); err != nil || rec.Code < 0 || rec.Code > 999 {
				return fmt.Errorf("status %.40q is no figure", tags.Status)
			}
		}
		if rec.Code == 0 {
			rec.Error = errorKind(tags.Error)
		} else {
			rec.Passed, rec.Failed = tags.Expected == "true", tags.Expected == "false"
		}
		each(rec)
		return nil
	})
}
