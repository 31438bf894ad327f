package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/tare-mesh/tare/internal/answer/analysis"
)

// parquetRow is a row of the Parquet file: one metric of one trial, as in CSV.
// Factors are a JSON object, since a Parquet file has the same columns whatever the experiment.
type parquetRow struct {
	Experiment string  `parquet:"experiment,dict"`
	Began      int64   `parquet:"began,timestamp(millisecond)"` // of the run; 0: not known
	Trial      string  `parquet:"trial,dict"`
	Ordinal    int32   `parquet:"ordinal"`
	Block      int32   `parquet:"block"`
	Treatment  string  `parquet:"treatment,dict"`
	Mesh       *string `parquet:"mesh,optional,dict"`
	Factors    string  `parquet:"factors,dict,json"`
	Control    bool    `parquet:"control"`
	Valid      bool    `parquet:"valid"`
	Metric     string  `parquet:"metric,dict"`
	Unit       string  `parquet:"unit,dict"`
	Value      float64 `parquet:"value"`
}

func writeParquet(w io.Writer, r *analysis.Report) error {
	p := parquet.NewGenericWriter[parquetRow](w, parquet.Compression(&parquet.Zstd))
	start := int64(0)
	if t := began(r); !t.IsZero() {
		start = t.UnixMilli()
	}
	err := tidy(r, func(x tidyRow) error {
		factors, err := json.Marshal(x.trial.Factors)
		if err != nil {
			return err
		}
		row := parquetRow{
			Experiment: r.Experiment, Began: start, Trial: x.trial.ID, Ordinal: int32(x.trial.Ordinal), Block: int32(x.trial.Block),
			Treatment: x.trial.Treatment, Factors: string(factors), Control: x.trial.Control, Valid: x.trial.Valid,
			Metric: x.metric.Name, Unit: x.metric.Unit, Value: x.value,
		}
		if v, ok := x.trial.Factors["mesh"]; ok {
			mesh := Level(v)
			row.Mesh = &mesh
		}
		_, err = p.Write([]parquetRow{row})
		return err
	})
	if closed := p.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write report as Parquet: %w", err)
	}
	return nil
}
