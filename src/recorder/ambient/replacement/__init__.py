"""Names of a holder set to other values, also those of holders that can only be made again, such as a tuple."""
