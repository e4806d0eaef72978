package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/seed-0906e6bc/mneme/engine"
	"github.com/seed-0906e6bc/mneme/engine/store"
	"github.com/seed-0906e6bc/mneme/engine/store/badgerstore"
	"github.com/seed-0906e6bc/mneme/engine/store/pgstore"
	"github.com/seed-0906e6bc/mneme/engine/verify"
)

// verifyData checks a data folder that no server has open, or a shared database, and prints the findings. The exit
// code is 1 if something is wrong. It changes nothing.
func verifyData(ctx context.Context, args []string, env lookup, stdout, stderr io.Writer) (err error) {
	data, url := defaultData, ""
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print the report as JSON")
	_, err = readOptions(flags, []option{
		{"data", "MNEME_DATA", "", &data, "`FOLDER` to check"},
		{"store", "", "", &url, "`URL` of a shared PostgreSQL to check instead, while servers run or not"},
	}, args, env, stderr)
	if err != nil {
		return err
	}
	name, look := data, verifyFolder
	if url != "" {
		name, look = "the database", verifyShared
	}
	report, err := look(ctx, cmp.Or(url, data))
	if err != nil {
		return err
	}
	if *asJSON {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		err = out.Encode(report)
	} else {
		printReport(stdout, name, report)
	}
	if err == nil && !report.Clean() {
		return exitCode(1)
	}
	return err
}

// verifyFolder checks the records in a copy of a folder. Opening the copy checks the database's files.
func verifyFolder(ctx context.Context, data string) (report *verify.Report, err error) {
	db, err := openCopy(data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if report, err = engine.Verify(ctx, store.Seal(db)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", data, err)
	}
	for _, f := range slices.Backward(db.Findings()) {
		report.FindingCount++
		report.Findings = slices.Insert(report.Findings, 0, verify.Finding{Kind: "files", Code: "damaged",
			Detail: describeDamage(f)})
	}
	return report, nil
}

func describeDamage(f badgerstore.Finding) string {
	text := fmt.Sprintf("%s/%s, found %s: %s", f.Database, f.File, f.At.Format(time.RFC3339), f.What)
	if f.Kept != "" {
		text += fmt.Sprintf("; the file as it was is damaged/%s", f.Kept)
	}
	return text
}

// verifyShared checks the records of a shared database as of one instant. It does not check the database's files.
func verifyShared(ctx context.Context, url string) (report *verify.Report, err error) {
	db, err := pgstore.Open(ctx, pgstore.Options{URL: url})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if report, err = engine.Verify(ctx, store.Seal(db)); err != nil {
		return nil, fmt.Errorf("reading the database: %w", err)
	}
	return report, nil
}

// printReport prints a report for people.
func printReport(w io.Writer, data string, r *verify.Report) {
	fmt.Fprintf(w, "%s: %d records of %d tenants, %d bytes\n", data, r.Records, r.Tenants, r.Bytes)
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		fmt.Fprintf(w, "  %-15s %d\n", kind, r.Kinds[kind])
	}
	printFindings(w, "left over by interrupted changes, harmless, removed in time", r.Leftovers, r.LeftoverCount)
	if r.Clean() {
		fmt.Fprintln(w, "nothing is wrong")
		return
	}
	printFindings(w, "wrong", r.Findings, r.FindingCount)
}

func printFindings(w io.Writer, what string, list []verify.Finding, count int) {
	if count == 0 {
		return
	}
	fmt.Fprintf(w, "%d %s:\n", count, what)
	for _, f := range list {
		fmt.Fprint(w, "  ")
		if f.Tenant != "" {
			fmt.Fprintf(w, "tenant %s", f.Tenant)
		}
		if f.Project != "" {
			fmt.Fprintf(w, ", project %s", f.Project)
		}
		if f.Session != "" {
			fmt.Fprintf(w, ", session %s", f.Session)
		}
		fmt.Fprintf(w, ": %s %s: %s [key %s]\n", f.Kind, f.Code, f.Detail, f.Key)
	}
	if more := count - len(list); more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}
