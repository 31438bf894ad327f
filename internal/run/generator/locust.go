package generator

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// LocustHeader begins the table of locust --csv with the requests by name, NAME_stats.csv.
const LocustHeader = "Type,Name,Request Count,Failure Count,"

// ParseLocust reads the aggregated row of NAME_stats.csv. Its quantiles have two digits.
func ParseLocust(r io.Reader) (Outcome, error) {
	o := Outcome{Generator: "locust", Loop: loopClosed}
	found := false
	err := eachCells(r, o.Generator, []string{"Type", "Name", "Request Count", "Failure Count", "Requests/s"}, func(c cells) error {
		if c.text("Name") != "Aggregated" || c.text("Type") != "" {
			return nil
		}
		if found {
			return fmt.Errorf("a second aggregated row: files were joined")
		}
		found = true
		all, err := c.number("Request Count")
		if err != nil {
			return err
		}
		failed, err := c.number("Failure Count")
		if err != nil {
			return err
		}
		rate, err := c.number("Requests/s")
		if err != nil {
			return err
		}
		if all > maxCount || failed > all {
			return fmt.Errorf("%g of %g requests failed", failed, all)
		}
		o.Requests, o.OK, o.NotOK = count(all), count(all-failed), count(failed)
		if rate > 0 {
			o.Rate, o.Elapsed = asRate(rate), span(all/rate)
		}
		if size, err := c.number("Average Content Size"); err == nil {
			o.BytesIn = count(size * all)
		}
		d := latencyOf(ofService)
		for name := range c.columns {
			v, err := c.number(name)
			if err != nil {
				continue
			}
			switch q, quantile := strings.CutSuffix(name, "%"); {
			case name == "Min Response Time":
				d.min(v / 1e3)
			case name == "Average Response Time":
				d.mean(v / 1e3)
			case name == "Max Response Time":
				d.max(v / 1e3)
			case quantile && q != "100":
				if q, err := strconv.ParseFloat(q, 64); err == nil {
					d.quantile(q/100, v/1e3)
				}
			}
		}
		if d.Count = *o.Requests; d.Count > 0 {
			d.addTo(&o)
		}
		if failed > 0 {
			o.note("this table of Locust does not contain the causes of failures: those without an answer count as responses")
		}
		return nil
	})
	if err == nil && !found {
		err = none(o.Generator, "row Aggregated")
	}
	return o, err
}
