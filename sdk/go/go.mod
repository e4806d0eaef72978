module github.com/seed-0906e6bc/mneme/sdk/go

go 1.24
