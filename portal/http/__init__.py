"""What both HTTP edges, REST and pages, share: statuses and problem+json, results as downloads, what they are given."""
